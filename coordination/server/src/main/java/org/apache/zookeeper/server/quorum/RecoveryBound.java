package org.apache.zookeeper.server.quorum;

import java.util.concurrent.TimeUnit;

/**
 * How long a recovery takes at most, from the death of the leader's process to a new one that serves. All in ns.
 *
 * <p>The form of [LiH21] (5.8) for our protocol, which floods votes once, tells again what came too early, and has no epoch
 * table; docs/coordination.md derives it. With n servers left:
 *
 * <pre>
 *   T = d + s_e + E + R      E = max(j + 2 d + w + h n(n+1), E seen)
 *                            R = max(s_r + n h_r + k b, R seen)
 * </pre>
 *
 * s_e is the time from a broken connection to the first vote, b of a forced write of an epoch, k how many of these are in the
 * way (strict 3, reserve 1, overlap and memory 0; one more where a reservation came too late). What this server has seen
 * replaces a parameter that was too small: maxima of its last recoveries. Before there are any, Table 5.3 of the paper holds.
 */
final class RecoveryBound {

    private static final long MS = TimeUnit.MILLISECONDS.toNanos(1);
    private static final int RECOVERIES = 64;
    /** h, s_r and h_r of Table 5.3. */
    private static final long MESSAGE_NS = 3 * MS;
    private static final long RECOVER_NS = 55 * MS;
    private static final long LEARNER_NS = 25 * MS;

    private final int forcedWrites;
    private final WaitEstimator waiting;
    /** s_e of Table 5.3 until it is seen to be more. */
    final Maxima leave = new Maxima(RECOVERIES, 35 * MS);
    final Maxima election = new Maxima(RECOVERIES, 0);
    final Maxima recovery = new Maxima(RECOVERIES, 0);
    final Maxima forced = new Maxima(RECOVERIES, 5 * MS);

    RecoveryBound(EpochStore.Mode mode, WaitEstimator waiting) {
        this.forcedWrites = mode == EpochStore.Mode.STRICT ? 3 : mode == EpochStore.Mode.RESERVE ? 1 : 0;
        this.waiting = waiting;
    }

    /**
     * @param voters of the ensemble, the dead leader among them
     */
    long boundNs(int voters) {
        long n = Math.max(1, voters - 1);
        long phase1 = electionNs(n, waiting.jitterNs(), waiting.delayNs(), waiting.waitNs(), MESSAGE_NS);
        long phase2 = recoveryNs(n, RECOVER_NS, LEARNER_NS, forcedWrites, forced.max());
        return waiting.delayNs() + leave.max() + Math.max(phase1, election.max()) + Math.max(phase2, recovery.max());
    }

    /** The same to the first acknowledged write of a client that opens a session: two proposals, each a round trip and a log force. */
    long firstWriteNs(int voters) {
        return boundNs(voters) + writeNs(waiting.delayNs(), LEARNER_NS, forced.max());
    }

    /** E of n servers: j, d, w and h. */
    static long electionNs(long n, long jitter, long delay, long wait, long message) {
        return jitter + 2 * delay + wait + message * n * (n + 1);
    }

    /** R of n servers: s_r, h_r, k and b. */
    static long recoveryNs(long n, long recover, long learner, long forcedWrites, long write) {
        return recover + n * learner + forcedWrites * write;
    }

    /** A session and a write in it: d, h_r and b. */
    static long writeNs(long delay, long learner, long write) {
        return 2 * (2 * delay + learner + write);
    }
}
