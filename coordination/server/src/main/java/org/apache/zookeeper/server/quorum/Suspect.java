package org.apache.zookeeper.server.quorum;

import java.util.concurrent.TimeUnit;

/**
 * A leader that was elected and does not answer at its quorum port, or fell silent there, while its election port is not: a
 * wire that is cut one way, a port that is blocked, a process that hangs. It has the best vote, so it would be elected again
 * and again. A server that it did not answer does not listen to its votes, nor to those for it, for a while: a quorum of such
 * servers elects another.
 *
 * <p>A leader may also just be slow. So each time in a row is given twice as long as the last, and where no other can be elected
 * it is listened to again.
 */
final class Suspect {

    /** It is not listened to for so long: until the others have noticed, too, by themselves or as a quorum looks for a leader. */
    static final long DEAF_NS = TimeUnit.SECONDS.toNanos(2);
    /** No leader is asked for less. */
    static final long LEAST_MS = 300;

    private long sid = -1;
    private long sinceNs;
    private long deafNs;
    private int times;

    /** It was waited for in vain. */
    synchronized void silent(long silent, long nowNs) {
        sid = silent;
        sinceNs = nowNs;
        deafNs = DEAF_NS;
        times++;
    }

    /**
     * It led, and said nothing for {@code silenceMs}. It is not listened to for as long again, until all that it did not tell
     * anything have noticed: where no other can be elected, and it only paused, it is not missed for longer than that.
     */
    synchronized void fellSilent(long silent, long silenceMs, long nowNs) {
        sid = silent;
        sinceNs = nowNs;
        deafNs = Math.min(DEAF_NS, TimeUnit.MILLISECONDS.toNanos(Math.max(LEAST_MS, silenceMs)));
    }

    /** There is a leader. */
    synchronized void answered() {
        sid = -1;
        times = 0;
    }

    /** Whether a vote for {@code leader} by {@code voter} is to be left out. */
    synchronized boolean concerns(long voter, long leader, long nowNs) {
        return sid >= 0 && nowNs - sinceNs < deafNs && (voter == sid || leader == sid);
    }

    /** How long a leader is given for its first answer, from {@code silenceMs}, in which one that serves would have said something, to {@code mostMs}. */
    synchronized long patienceMs(long silenceMs, long mostMs) {
        return Math.min(Math.max(LEAST_MS, silenceMs) << Math.min(times, 16), Math.max(mostMs, LEAST_MS));
    }
}
