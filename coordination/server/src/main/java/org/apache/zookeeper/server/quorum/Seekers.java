package org.apache.zookeeper.server.quorum;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/**
 * The servers that look for a leader, by what they said last. Who follows says so only when asked: an older word counts no more,
 * and who still looks says it again.
 */
final class Seekers {

    /** Servers that lose one leader notice it within this of each other; in ns. */
    static final long FRESH_NS = WaitEstimator.LIMIT_NS;

    private final Map<Long, Long> saidNs = new HashMap<>();

    synchronized void says(long sid, boolean looks, long nowNs) {
        if (looks) {
            saidNs.put(sid, nowNs);
        } else {
            saidNs.remove(sid);
        }
    }

    synchronized Set<Long> at(long nowNs) {
        saidNs.values().removeIf(ns -> nowNs - ns > FRESH_NS);
        return new HashSet<>(saidNs.keySet());
    }
}
