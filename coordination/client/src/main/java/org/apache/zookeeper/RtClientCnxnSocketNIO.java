package org.apache.zookeeper;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetSocketAddress;
import java.nio.channels.SelectionKey;
import java.util.Collection;
import java.util.concurrent.LinkedBlockingDeque;
import org.apache.zookeeper.client.HostProvider;
import org.apache.zookeeper.client.ZKClientConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A client's socket that comes back fast: {@code -Dzookeeper.clientCnxnSocket=org.apache.zookeeper.RtClientCnxnSocketNIO} and this
 * jar on the class path, nothing else in the application.
 *
 * <p>Stock's client sleeps a random time of up to a second before every connection but its first, and a second more when it has
 * tried every server once; and its socket sleeps 100 ms whenever it is closed. With this one it tries the next server at once, and rests
 * when it has tried all: 5, 10, 20, then 50 ms.
 * Everything on the wire is stock's. For clients of ZooKeeper 3.8 and 3.9; where another version has no such fields, the client refuses to
 * start and says so, rather than being slow in secret.
 */
public class RtClientCnxnSocketNIO extends ClientCnxnSocketNIO {

    private static final Logger LOG = LoggerFactory.getLogger(RtClientCnxnSocketNIO.class);
    /** The rests after all servers were tried once, twice, and so on; the last one from then on. */
    static final long[] RESTS_MS = {5, 10, 20, 50};

    private final Field key;
    private final Field firstConnect;
    private final Field hostProvider;

    /** Called by ZooKeeper's constructor. */
    public RtClientCnxnSocketNIO(ZKClientConfig config) throws IOException {
        super(config);
        try {
            key = ClientCnxnSocketNIO.class.getDeclaredField("sockKey");
            key.setAccessible(true);
            firstConnect = ClientCnxn.SendThread.class.getDeclaredField("isFirstConnect");
            firstConnect.setAccessible(true);
            hostProvider = ClientCnxn.class.getDeclaredField("hostProvider");
            hostProvider.setAccessible(true);
        } catch (ReflectiveOperationException e) {
            throw new IOException("this ZooKeeper client is neither 3.8 nor 3.9: " + e.getMessage()
                + "; leave zookeeper.clientCnxnSocket out", e);
        }
    }

    /** The client's thread calls this before it knows any server. */
    @Override
    void introduce(ClientCnxn.SendThread thread, long session, LinkedBlockingDeque<ClientCnxn.Packet> queue) {
        super.introduce(thread, session, queue);
        try {
            Field outer = ClientCnxn.SendThread.class.getDeclaredField("this$0");
            outer.setAccessible(true);
            ClientCnxn client = (ClientCnxn) outer.get(thread);
            hostProvider.set(client, new Impatient((HostProvider) hostProvider.get(client)));
        } catch (ReflectiveOperationException e) {
            LOG.warn("The client will rest for a second when it has tried all servers", e);
        }
    }

    /**
     * Called whenever a connection ends. Stock's closes the channel too, and sleeps. A client that has never connected does not sleep
     * before it does: it is one again.
     */
    @Override
    void cleanup() {
        try {
            SelectionKey connection = (SelectionKey) key.get(this);
            if (connection != null) {
                connection.cancel();
                connection.channel().close();
                key.set(this, null);
            }
            firstConnect.setBoolean(sendThread, true);
        } catch (IOException | IllegalAccessException e) {
            LOG.warn("The client will sleep before it connects again", e);
            super.cleanup();
        }
    }

    /** Servers in the order of another provider, with shorter rests. */
    static final class Impatient implements HostProvider {

        private final HostProvider servers;
        /** How many servers were tried since one took us. */
        private int tried;

        Impatient(HostProvider servers) {
            this.servers = servers;
        }

        @Override
        public int size() {
            return servers.size();
        }

        @Override
        public InetSocketAddress next(long rest) {
            // The provider rests with the last server of a round only.
            int round = Math.min(tried / Math.max(1, servers.size()), RESTS_MS.length - 1);
            if (round < RESTS_MS.length - 1) {
                tried++;
            }
            return servers.next(Math.min(rest, RESTS_MS[round]));
        }

        @Override
        public void onConnected() {
            tried = 0;
            servers.onConnected();
        }

        @Override
        public boolean updateServerList(Collection<InetSocketAddress> addresses, InetSocketAddress current) {
            return servers.updateServerList(addresses, current);
        }
    }
}
