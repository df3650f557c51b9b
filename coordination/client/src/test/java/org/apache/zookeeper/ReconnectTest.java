package org.apache.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;

class ReconnectTest {

    /** How often a client connects in about 3 s to a server that hangs up at once, how many ms these were, and the least between two. */
    private static long[] attempts(String socket) throws Exception {
        AtomicInteger accepted = new AtomicInteger();
        AtomicLong least = new AtomicLong(Long.MAX_VALUE);
        long start;
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread thread = new Thread(() -> {
                long before = System.nanoTime() - 3_000_000_000L;
                while (true) {
                    try {
                        Socket s = server.accept();
                        accepted.incrementAndGet();
                        long now = System.nanoTime();
                        least.set(Math.min(least.get(), now - before));
                        before = now;
                        s.close();
                    } catch (java.io.IOException e) {
                        return;
                    }
                }
            });
            thread.setDaemon(true);
            thread.start();
            ZKClientConfig config = new ZKClientConfig();
            if (socket != null) {
                config.setProperty(ZKClientConfig.ZOOKEEPER_CLIENT_CNXN_SOCKET, socket);
            }
            start = System.nanoTime();
            ZooKeeper client = new ZooKeeper("127.0.0.1:" + server.getLocalPort(), 10_000, event -> { }, config);
            Thread.sleep(3000);
            client.close(2000);
        }
        return new long[] {accepted.get(), (System.nanoTime() - start) / 1_000_000, least.get() / 1_000_000};
    }

    @Test
    void itComesBackManyTimesWhereStockComesBackAFew() throws Exception {
        long stock = attempts(null)[0];
        long[] measured = attempts(RtClientCnxnSocketNIO.class.getName());
        long ours = measured[0];
        System.out.printf("ZooKeeper client %s: %d attempts with the stock socket, %d with ours%n", Version.getVersion(), stock, ours);
        assertTrue(ours > 3 * stock, stock + " and " + ours);
        // Stock's socket sleeps 100 ms when it is closed.
        assertTrue(measured[2] < 100, "it slept " + measured[2] + " ms between any two");
        // 50 ms rest after the first ones: a client does not hammer a server.
        assertTrue(ours <= measured[1] / 50 + RtClientCnxnSocketNIO.RESTS_MS.length + 1, "more often than every 50 ms: " + ours);
    }

    @Test
    void onlyTheRestIsShorter() {
        InetSocketAddress address = new InetSocketAddress(1);
        long[] rest = {-1};
        int[] connected = {0};
        HostProvider servers = new HostProvider() {
            @Override
            public int size() {
                return 7;
            }

            @Override
            public InetSocketAddress next(long spinDelay) {
                rest[0] = spinDelay;
                return address;
            }

            @Override
            public void onConnected() {
                connected[0]++;
            }

            @Override
            public boolean updateServerList(Collection<InetSocketAddress> a, InetSocketAddress b) {
                return true;
            }
        };
        HostProvider ours = new RtClientCnxnSocketNIO.Impatient(servers);
        for (int again = 0; again < 2; again++) {
            for (long expected : new long[] {5, 10, 20, 50, 50, 50}) {
                for (int server = 0; server < 7; server++) {
                    assertEquals(address, ours.next(1000));
                    assertEquals(expected, rest[0], "a round of tries has one rest, and the next a longer one");
                }
            }
            ours.next(0);
            assertEquals(0, rest[0]);
            ours.next(3);
            assertEquals(3, rest[0], "never longer than stock's");
            ours.onConnected();
            assertEquals(again + 1, connected[0]);
        }
        assertEquals(7, ours.size());
        assertTrue(ours.updateServerList(null, null));
    }
}
