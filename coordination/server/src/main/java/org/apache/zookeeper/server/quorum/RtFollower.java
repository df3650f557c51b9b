package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.concurrent.TimeUnit;

/** A follower that connects when the leader says it is ready, and reports what it sees of the leader. */
final class RtFollower extends Follower {

    private final RtQuorumPeer peer;

    RtFollower(RtQuorumPeer peer, FollowerZooKeeperServer server) {
        super(peer, server);
        this.peer = peer;
    }

    @Override
    protected void connectToLeader(MultipleAddresses address, String hostname) throws IOException {
        peer.connect(() -> super.connectToLeader(address, hostname), () -> sock != null);
        peer.phases().connected(System.nanoTime());
    }

    @Override
    protected void sockConnect(Socket socket, InetSocketAddress address, int timeout) throws IOException {
        peer.awaitReady();
        super.sockConnect(socket, address, timeout);
    }

    @Override
    protected void ping(QuorumPacket packet) throws IOException {
        // The leader pings every half tick.
        peer.waiting().heartbeat(System.nanoTime(), TimeUnit.MILLISECONDS.toNanos(peer.getTickTime()) / 2);
        super.ping(packet);
    }

    @Override
    void closeSocket() {
        peer.leaderLost();
        super.closeSocket();
    }
}
