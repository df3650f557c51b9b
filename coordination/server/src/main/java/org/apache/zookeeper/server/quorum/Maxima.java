package org.apache.zookeeper.server.quorum;

import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The largest of the last samples, none below a prior that holds until it is contradicted. All in ns.
 *
 * <p>A bound must not forget its worst case after one good day: the window is counted in samples, not in time.
 */
final class Maxima {

    private final int window;
    private final long prior;
    private final Deque<Long> samples = new ArrayDeque<>();

    /**
     * @param prior counts as a sample until the window is full
     */
    Maxima(int window, long prior) {
        this.window = window;
        this.prior = prior;
    }

    synchronized void add(long ns) {
        if (samples.size() == window) {
            samples.removeFirst();
        }
        samples.addLast(ns);
    }

    /** O(window). */
    synchronized long max() {
        long max = samples.size() < window ? prior : 0;
        for (long ns : samples) {
            max = Math.max(max, ns);
        }
        return max;
    }
}
