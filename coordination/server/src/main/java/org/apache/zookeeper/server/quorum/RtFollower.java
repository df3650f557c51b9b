package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;

/** A follower that connects when the leader says it is ready, and reports what it sees of the leader. */
final class RtFollower extends Follower {

    private final RtQuorumPeer peer;
    /** Since when it waits for the leader's first answer (System.nanoTime); 0: it does not. */
    private volatile long waitingNs;
    private volatile boolean left;

    RtFollower(RtQuorumPeer peer, FollowerZooKeeperServer server) {
        super(peer, server);
        this.peer = peer;
    }

    @Override
    protected void connectToLeader(MultipleAddresses address, String hostname) throws IOException {
        peer.connect(() -> super.connectToLeader(address, hostname), () -> sock != null);
        peer.phases().connected(System.nanoTime());
    }

    /** Stock waits for initLimit ticks for the first answer. */
    @Override
    protected long registerWithLeader(int kind) throws IOException {
        sock.setSoTimeout(peer.patienceMs());
        waitingNs = System.nanoTime() | 1;
        try {
            return super.registerWithLeader(kind);
        } catch (IOException e) {
            if (left || e instanceof SocketTimeoutException) {
                peer.leaderIsSilent();
            }
            throw e;
        } finally {
            waitingNs = 0;
            if (!sock.isClosed()) {
                sock.setSoTimeout(peer.getTickTime() * peer.getInitLimit());
            }
        }
    }

    /** Not only those that do not begin to lead are silent. */
    @Override
    void readPacket(QuorumPacket packet) throws IOException {
        try {
            super.readPacket(packet);
        } catch (SocketTimeoutException e) {
            if (waitingNs == 0) {
                peer.leaderFellSilent();
            }
            throw e;
        }
    }

    /** So many others look for a leader that they and this server could elect one: the one that it waits for does not answer them. */
    void othersLook(long nowNs) {
        long since = waitingNs;
        if (since != 0 && nowNs - since > TimeUnit.MILLISECONDS.toNanos(Suspect.LEAST_MS)) {
            left = true;
            closeSocket();
        }
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
