package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** An observer that connects as {@link RtFollower} does. */
final class RtObserver extends Observer {

    private final RtQuorumPeer peer;

    RtObserver(RtQuorumPeer peer, ObserverZooKeeperServer server) {
        super(peer, server);
        this.peer = peer;
    }

    @Override
    protected void connectToLeader(MultipleAddresses address, String hostname) throws IOException {
        long end = System.nanoTime() + RtQuorumPeer.CONNECT_NS;
        while (true) {
            try {
                super.connectToLeader(address, hostname);
                return;
            } catch (IOException e) {
                if (sock != null || System.nanoTime() >= end || !peer.leaderIsUp()) {
                    throw e;
                }
            }
        }
    }

    @Override
    protected void sockConnect(Socket socket, InetSocketAddress address, int timeout) throws IOException {
        peer.awaitReady();
        super.sockConnect(socket, address, timeout);
    }
}
