package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;

class LeaseTest {

    private static final long LASTS = 90;

    private static Predicate<Set<Long>> majority(int size) {
        return sids -> 2 * sids.size() > size;
    }

    @Test
    void itIsOverWhenNoQuorumHasAnsweredForSoLongAndNotBeforeOneHasEverDone() {
        Lease lease = new Lease(LASTS);
        Set<Long> voters = Set.of(1L, 2L, 3L);
        assertEquals(LASTS, lease.leftNs(1, voters, majority(3), 10_000), "followers begin to follow");
        lease.answered(2, 100);
        assertEquals(90, lease.leftNs(1, voters, majority(3), 100));
        lease.answered(3, 130);
        lease.answered(3, 120);
        assertEquals(20, lease.leftNs(1, voters, majority(3), 200), "one that listens is a quorum with the leader");
        lease.answered(7, 200);
        assertTrue(lease.leftNs(1, voters, majority(3), 220) <= 0, "an observer is none");
        Set<Long> five = Set.of(1L, 2L, 3L, 4L, 5L);
        assertTrue(lease.leftNs(1, five, majority(5), 190) <= 0, "of five it takes two: the earlier end");
        assertEquals(1, lease.leftNs(1, five, majority(5), 189));
        assertEquals(LASTS, new Lease(LASTS).leftNs(1, Set.of(1L), majority(1), 5), "a leader that is alone by itself");
    }

    /** Messages take any time. Whenever a quorum without the leader has left, the leader has known it before. */
    @Test
    void noQuorumLeavesBefore() {
        Random random = new Random(3);
        int left = 0;
        for (int run = 0; run < 20_000; run++) {
            int size = 3 + random.nextInt(3);
            long silence = LASTS + 1;
            Lease lease = new Lease(LASTS);
            Set<Long> voters = new TreeSet<>();
            List<Long> leaves = new ArrayList<>();
            // What each is still to be told, and has still to answer: of each heartbeat when it is there, and when its answer is.
            List<long[]> answers = new ArrayList<>();
            for (long sid = 1; sid <= size; sid++) {
                voters.add(sid);
                long counts = Long.MIN_VALUE;
                long back = 0;
                long there = 0;
                for (long sent = 0; sid > 1 && sent < 400; sent += 10) {
                    there = Math.max(there, sent + random.nextInt(random.nextInt(12) == 0 ? 300 : 20));
                    if (counts != Long.MIN_VALUE && there - counts >= silence) {
                        break;
                    }
                    counts = there;
                    back = Math.max(back, there + random.nextInt(random.nextInt(12) == 0 ? 300 : 20));
                    answers.add(new long[] {back, sid, sent});
                }
                leaves.add(sid == 1 ? Long.MAX_VALUE : counts + silence);
            }
            List<Long> sorted = new ArrayList<>(leaves);
            sorted.sort(null);
            // So many have left then that they elect another.
            long elected = sorted.get(size / 2);
            answers.sort((a, b) -> Long.compare(a[0], b[0]));
            Predicate<Set<Long>> quorum = majority(size);
            Set<Long> answered = new TreeSet<>(Set.of(1L));
            for (long[] answer : answers) {
                if (answer[0] < elected) {
                    lease.answered(answer[1], answer[2]);
                    answered.add(answer[1]);
                }
            }
            // A leader that no quorum has ever answered does not know yet that it has one.
            if (quorum.test(answered)) {
                assertTrue(lease.leftNs(1, voters, quorum, elected) < 0, "run " + run);
                left++;
            }
        }
        assertTrue(left > 10_000, left + " runs");
    }
}
