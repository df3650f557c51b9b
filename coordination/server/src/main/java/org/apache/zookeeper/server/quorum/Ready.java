package org.apache.zookeeper.server.quorum;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/**
 * Who said, and for which round of the election, that it leads (CNX_READY of FQCE, [LiH21, section 5.2.3]). A leader of ours
 * says so when its socket is bound; the message is an ordinary notification, so that a stock server understands it too.
 */
final class Ready {

    private final Map<Long, Long> rounds = new HashMap<>();

    synchronized void says(long sid, long round) {
        rounds.merge(sid, round, Math::max);
        notifyAll();
    }

    synchronized boolean said(long sid, long round) {
        return rounds.getOrDefault(sid, Long.MIN_VALUE) >= round;
    }

    /** Waits until a server has said that it leads in this round or a later one (-1: a reconfiguration named it); false where it did not in time. */
    synchronized boolean await(long sid, long round, long timeoutNs) throws InterruptedException {
        long end = System.nanoTime() + timeoutNs;
        while (!said(sid, round)) {
            long left = end - System.nanoTime();
            if (left <= 0) {
                return false;
            }
            TimeUnit.NANOSECONDS.timedWait(this, left);
        }
        return true;
    }
}
