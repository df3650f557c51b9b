package org.apache.zookeeper;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.junit.jupiter.api.Test;

class ReconnectTest {

    /** How often a client connects within 3 s to a server that hangs up at once. */
    private static int attempts(String socket) throws Exception {
        AtomicInteger accepted = new AtomicInteger();
        try (ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            Thread thread = new Thread(() -> {
                while (true) {
                    try {
                        Socket s = server.accept();
                        accepted.incrementAndGet();
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
            ZooKeeper client = new ZooKeeper("127.0.0.1:" + server.getLocalPort(), 10_000, event -> { }, config);
            Thread.sleep(3000);
            client.close(2000);
        }
        return accepted.get();
    }

    @Test
    void itComesBackManyTimesWhereStockComesBackAFew() throws Exception {
        int stock = attempts(null);
        int ours = attempts(RtClientCnxnSocketNIO.class.getName());
        System.out.printf("ZooKeeper client %s: %d attempts with the stock socket, %d with ours%n", Version.getVersion(), stock, ours);
        assertTrue(ours > 3 * stock, stock + " and " + ours);
        // 50 ms rest and no more: a client does not hammer a server.
        assertTrue(ours <= 3000 / RtClientCnxnSocketNIO.REST_MS + 1, "more often than every 50 ms: " + ours);
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
        assertEquals(address, ours.next(1000));
        assertEquals(50, rest[0]);
        ours.next(0);
        assertEquals(0, rest[0]);
        ours.onConnected();
        assertEquals(1, connected[0]);
        assertEquals(7, ours.size());
        assertTrue(ours.updateServerList(null, null));
    }
}
