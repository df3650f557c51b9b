package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.io.InterruptedIOException;
import java.net.SocketTimeoutException;
import java.util.function.BooleanSupplier;
import javax.security.sasl.SaslException;

/** What leader, follower, observer, election and database ask of the server that they are part of: {@link RtQuorumPeer}. */
abstract class Member extends QuorumPeer {

    /** One try to connect to a leader. */
    interface Attempt {
        void run() throws IOException;
    }

    Member() throws SaslException {
    }

    /** Whether another said, just before this one began to lead, that it leads in a later round. */
    abstract boolean heardOfAnother();

    /** As a leader it was answered by no quorum: it keeps its vote to itself for a while. */
    abstract void keepsQuiet();

    /** A message of another server arrives. */
    abstract void peek(QuorumCnxManager.Message message);

    /** Until the leader we voted for says that it is ready, or some milliseconds have passed. */
    abstract void awaitReady() throws InterruptedIOException;

    /** Tries to connect until it is done, or the socket was handed over, or there is nothing to connect to. */
    abstract void connect(Attempt attempt, BooleanSupplier connected) throws IOException;

    /** How long one try may take, where stock gives it that. */
    abstract int connectMs(int stockMs) throws SocketTimeoutException;

    /** Whether the leader we voted for has said that its socket is bound. */
    abstract boolean leaderIsReady();

    /** Whether this server goes on, and the election channel to the server it voted for is open. */
    abstract boolean leaderIsUp();

    /** How long the leader is given for its first answer. */
    abstract int patienceMs();

    /** The leader we voted for does not answer, though it goes on voting. */
    abstract void leaderIsSilent();

    /** The leader we follow has said nothing for syncLimit ticks. */
    abstract void leaderFellSilent();

    /** Whether the vote of a server for a leader does not count here for now. */
    abstract boolean leavesOut(long voter, long leader);

    /** The connection to the leader is gone, or is being closed; may be called several times. */
    abstract void leaderLost();

    /** Names or lengths of files beside the epochs changed. */
    abstract void namesChanged();

    /** Who led when this server last lost its leader; -1: none. */
    abstract long lostLeader();

    /** How long an election waits for better votes. */
    abstract long waitNs();

    /** Whether it has served since it was started. */
    abstract boolean served();

    abstract WaitEstimator waiting();

    abstract Phases phases();

    abstract void roundStarted(long round, long nowNs);

    abstract void answeredPeer();
}
