package org.apache.zookeeper.server.quorum;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;

/**
 * Until when a leader knows that no other leads. A learner that answers a heartbeat begins to count its silence anew after the
 * heartbeat was sent; so it does not look for another leader before as long after that as it is patient, whatever messages
 * take. A leader that has no quorum of such learners steps down before one of them leaves, as it counts less long than they do.
 *
 * <p>Times are of System.nanoTime. Threads: any.
 */
final class Lease {

    private final long lastsNs;
    /** When the latest heartbeat was sent that a learner has answered. */
    private final Map<Long, Long> sentNs = new HashMap<>();
    /** Whether a quorum has answered: those that begin to follow answer nothing yet. */
    private boolean held;

    /** @param lastsNs less than what learners wait without a word */
    Lease(long lastsNs) {
        this.lastsNs = lastsNs;
    }

    /** A learner has answered a heartbeat. */
    synchronized void answered(long sid, long sent) {
        sentNs.merge(sid, sent, (a, b) -> b - a > 0 ? b : a);
    }

    /**
     * How long it lasts, in ns from now; 0 or less: another may be elected.
     *
     * @param own the leader, which does not leave itself
     * @param voters of the ensemble
     * @param quorum whether so many are one
     */
    synchronized long leftNs(long own, Set<Long> voters, Predicate<Set<Long>> quorum, long nowNs) {
        Map<Long, Long> left = new HashMap<>();
        for (long sid : voters) {
            if (sid != own && sentNs.containsKey(sid)) {
                left.put(sid, sentNs.get(sid) + lastsNs - nowNs);
            }
        }
        // From the end that is the latest on, until a quorum has it as late.
        for (long end : new TreeSet<>(left.values()).descendingSet()) {
            Set<Long> faithful = new TreeSet<>(Set.of(own));
            left.forEach((sid, ns) -> {
                if (ns >= end) {
                    faithful.add(sid);
                }
            });
            if (quorum.test(faithful)) {
                held = true;
                return end;
            }
        }
        return held && !quorum.test(Set.of(own)) ? 0 : lastsNs;
    }
}
