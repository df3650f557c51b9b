package org.apache.zookeeper.server.quorum;

import java.io.EOFException;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.SocketException;
import java.net.SocketTimeoutException;
import java.util.concurrent.TimeUnit;

/** A follower that connects when the leader says it is ready, and reports what it sees of the leader. */
final class RtFollower extends Follower {

    private final Member peer;
    /** Since when it waits for the leader's first answer (System.nanoTime); 0: it does not. */
    private volatile long waitingNs;
    private volatile boolean left;
    /** Whether the leader has said anything on this connection. */
    private boolean answered;
    /** Whether it had said that its socket is bound when this one was connected. */
    private boolean ready;
    private MultipleAddresses address;
    private String hostname;

    RtFollower(Member peer, FollowerZooKeeperServer server) {
        super(peer, server);
        this.peer = peer;
    }

    @Override
    protected void connectToLeader(MultipleAddresses address, String hostname) throws IOException {
        this.address = address;
        this.hostname = hostname;
        ready = peer.leaderIsReady();
        peer.connect(() -> super.connectToLeader(address, hostname), () -> sock != null);
        peer.phases().connected(System.nanoTime());
    }

    /**
     * Where a relay stands between, a connection to a leader that does not listen yet is not refused but closed. Stock then
     * asks for another election, in which the same server wins, and loses its follower in the same way.
     */
    @Override
    protected long registerWithLeader(int kind) throws IOException {
        long endNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(peer.patienceMs());
        while (true) {
            answered = false;
            try {
                return register(kind);
            } catch (EOFException | SocketException e) {
                if (answered || left || ready || System.nanoTime() - endNs >= 0 || !peer.leaderIsUp()) {
                    throw e;
                }
                sock.close();
                sock = null;
                connectToLeader(address, hostname);
            }
        }
    }

    /** Stock waits for initLimit ticks for the first answer. */
    private long register(int kind) throws IOException {
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
            answered = true;
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
        super.sockConnect(socket, address, peer.connectMs(timeout));
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
