package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** An observer that connects as {@link RtFollower} does. */
final class RtObserver extends Observer {

    private final Member peer;

    RtObserver(Member peer, ObserverZooKeeperServer server) {
        super(peer, server);
        this.peer = peer;
    }

    @Override
    protected void connectToLeader(MultipleAddresses address, String hostname) throws IOException {
        peer.connect(() -> super.connectToLeader(address, hostname), () -> sock != null);
    }

    @Override
    protected void sockConnect(Socket socket, InetSocketAddress address, int timeout) throws IOException {
        peer.awaitReady();
        super.sockConnect(socket, address, peer.connectMs(timeout));
    }
}
