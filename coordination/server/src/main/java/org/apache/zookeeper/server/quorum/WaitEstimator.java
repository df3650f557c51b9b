package org.apache.zookeeper.server.quorum;

import java.util.HashMap;
import java.util.Map;

/**
 * How long an election waits for votes: w = j + d + margin, of which (5.2) of [LiH21] demands w &gt; j + d.
 *
 * <p>j, the spread of the instants at which servers notice a dead leader, is measured in every recovery: the time between our
 * own start of a round and the first vote of each peer in it (which contains the message's delay). d, the delay of messages, is
 * measured by every heartbeat of the leader: how far it is from half a tick after the one before. Both count with their maximum
 * over the last samples; the configured values hold until there are enough.
 *
 * <p>Threads: {@code vote} is called by the receiver of the election channel, {@code heartbeat} by the follower, the rest by
 * the election.
 */
final class WaitEstimator {

    /** Spreads above this are no jitter of detection: the peer was not up, or not connected. */
    static final long LIMIT_NS = Settings.STOCK_WAIT_NS;
    private static final int RECOVERIES = 16;
    private static final int HEARTBEATS = 64;

    private final Settings settings;
    private final Maxima jitter;
    private final Maxima delay;
    private final Map<Long, Long> firstVoteNs = new HashMap<>();
    private long round = -1;
    private long lastHeartbeatNs = -1;

    WaitEstimator(Settings settings) {
        this.settings = settings;
        this.jitter = new Maxima(RECOVERIES, settings.jitterNs);
        this.delay = new Maxima(HEARTBEATS, settings.delayNs);
    }

    /** There is another election, which counts its rounds from the beginning: after a start, and after a reconfiguration. */
    synchronized void roundsBegin() {
        round = -1;
        firstVoteNs.clear();
    }

    /** A vote of a voter that looks for a leader, in its round. Rounds only grow. */
    synchronized void vote(long sid, long voteRound, long nowNs) {
        if (voteRound > round) {
            round = voteRound;
            firstVoteNs.clear();
        }
        if (voteRound == round) {
            firstVoteNs.putIfAbsent(sid, nowNs);
        }
    }

    /** A recovery's election is over, which we entered at {@code startNs} in round {@code ourRound}. */
    synchronized void elected(long ourRound, long startNs) {
        if (ourRound != round) {
            return;
        }
        long spread = 0;
        for (long ns : firstVoteNs.values()) {
            long one = Math.abs(ns - startNs);
            spread = one > LIMIT_NS ? spread : Math.max(spread, one);
        }
        if (spread > 0) {
            jitter.add(spread);
        }
    }

    /** A heartbeat of the leader, which sends one every {@code everyNs}. */
    synchronized void heartbeat(long nowNs, long everyNs) {
        if (lastHeartbeatNs >= 0) {
            long off = Math.abs(nowNs - lastHeartbeatNs - everyNs);
            delay.add(Math.min(off, LIMIT_NS));
        }
        lastHeartbeatNs = nowNs;
    }

    /** The leader is gone: the next heartbeat is another's, and no measure of delay. */
    synchronized void silence() {
        lastHeartbeatNs = -1;
    }

    long jitterNs() {
        return jitter.max();
    }

    long delayNs() {
        return delay.max();
    }

    /** w in ns: as configured, or measured, and never more than stock's 200 ms. */
    long waitNs() {
        if (settings.waitNs > 0) {
            return settings.waitNs;
        }
        return Math.min(LIMIT_NS, jitterNs() + delayNs() + settings.marginNs);
    }
}
