package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class WaitTest {

    private static final long MS = 1_000_000;

    private static WaitEstimator waiting(String... pairs) {
        Properties p = new Properties();
        for (int i = 0; i < pairs.length; i += 2) {
            p.setProperty(pairs[i], pairs[i + 1]);
        }
        return new WaitEstimator(Settings.of(p));
    }

    @Test
    void untilAnythingIsMeasuredItIsThePapersTwentyMilliseconds() {
        assertEquals(20 * MS, waiting().waitNs());
        assertEquals(25 * MS, waiting("giusto.wait", "25ms").waitNs());
    }

    @Test
    void theSpreadOfDetectionsCountsWhicheverServerWasFirst() {
        for (long off : new long[] {-30 * MS, 30 * MS}) {
            WaitEstimator w = waiting();
            w.vote(2, 7, 1000 * MS + off);
            w.vote(2, 7, 1500 * MS);
            w.elected(7, 1000 * MS);
            assertEquals(30 * MS, w.jitterNs());
            assertEquals(37 * MS, w.waitNs());
        }
    }

    @Test
    void votesOfOtherRoundsAndOfServersThatCameUpLateAreNoJitter() {
        WaitEstimator w = waiting();
        w.vote(2, 6, 0);
        w.vote(2, 7, 1010 * MS);
        w.vote(3, 7, 1900 * MS);
        w.vote(4, 6, 1100 * MS);
        w.elected(7, 1000 * MS);
        assertEquals(13 * MS, w.jitterNs(), "10 ms is below the prior, 900 ms is no jitter, 100 ms of a round before neither");
    }

    @Test
    void roundsOfAnotherElectionCount() {
        WaitEstimator w = waiting();
        w.vote(2, 70, 0);
        w.roundsBegin();
        w.vote(2, 1, 1030 * MS);
        w.elected(1, 1000 * MS);
        assertEquals(30 * MS, w.jitterNs());
    }

    @Test
    void heartbeatsMeasureDelayButNotAcrossLeaders() {
        WaitEstimator w = waiting();
        w.heartbeat(0, 500 * MS);
        w.heartbeat(509 * MS, 500 * MS);
        assertEquals(9 * MS, w.delayNs());
        w.silence();
        w.heartbeat(9000 * MS, 500 * MS);
        assertEquals(9 * MS, w.delayNs());
    }

    @Test
    void moreThanJitterAndDelayAlwaysAndNeverMoreThanStock() {
        Random random = new Random(5);
        int capped = 0, shorter = 0;
        for (int system = 0; system < 2000; system++) {
            WaitEstimator w = waiting();
            long now = 0, range = 1 + random.nextInt(250);
            for (int i = 0; i < 100; i++) {
                now += (500 + random.nextInt((int) range)) * MS;
                w.heartbeat(now, 500 * MS);
                if (random.nextInt(3) == 0) {
                    w.vote(2, i, now + random.nextInt((int) range) * MS);
                    w.elected(i, now);
                }
                long jd = w.jitterNs() + w.delayNs();
                assertTrue(w.waitNs() > jd || w.waitNs() == 200 * MS);
                assertTrue(w.waitNs() <= 200 * MS);
                capped += w.waitNs() == 200 * MS ? 1 : 0;
                shorter += w.waitNs() < 20 * MS ? 1 : 0;
            }
        }
        System.out.printf("wait: %d of 200000 at stock's limit, %d below the paper's 20 ms%n", capped, shorter);
        assertTrue(capped > 100 && shorter > 100);
    }

    @Test
    void theBoundWithTable53IsWhatOneAddsUpByHand() {
        // n = 2 left of 3, w = 20: T = d + s_e + (j + 2 d + w + 6 h) + (s_r + 2 h_r + k b), k = 1.
        WaitEstimator w = waiting();
        RecoveryBound bound = new RecoveryBound(EpochStore.Mode.RESERVE, w);
        assertEquals((3 + 35 + (13 + 6 + 20 + 18) + (55 + 50 + 5)) * MS, bound.boundNs(3));
        assertEquals(10 * MS, new RecoveryBound(EpochStore.Mode.STRICT, w).boundNs(3) - bound.boundNs(3));
        assertEquals(((20 - 6) * 3 + 2 * 25) * MS, bound.boundNs(5) - bound.boundNs(3));
        assertEquals(2 * (6 + 25 + 5) * MS, bound.firstWriteNs(3) - bound.boundNs(3));
    }

    /** formats/goldens/recovery.json: 'giusto analyze recovery' is tested with the same numbers. */
    @Test
    void theBoundIsTheOneThatThePlannerUses() throws IOException {
        int cases = 0;
        for (String line : Files.readAllLines(Path.of("../../formats/goldens/recovery.json"))) {
            Map<String, Long> all = numbers(line.replaceAll("\\{[^{}]*}", ""));
            Map<String, Long> times = part(line, "times");
            Map<String, Long> bound = part(line, "bound");
            long n = all.get("servers") - 1;
            long delay = times.get("delay_ns");
            long election = RecoveryBound.electionNs(n, times.get("jitter_ns"), delay, all.get("wait_ns"), times.get("message_ns"));
            long recovery = RecoveryBound.recoveryNs(n, times.get("recover_ns"), times.get("learner_ns"), all.get("forced_writes"),
                times.get("write_ns"));
            long total = delay + times.get("leave_ns") + election + recovery;
            assertEquals(bound.get("election_ns"), election);
            assertEquals(bound.get("recovery_ns"), recovery);
            assertEquals(bound.get("total_ns"), total);
            assertEquals(bound.get("first_write_ns"),
                total + RecoveryBound.writeNs(delay, times.get("learner_ns"), times.get("write_ns")));
            cases++;
        }
        System.out.printf("wait: %d bounds are the planner's%n", cases);
        assertTrue(cases >= 20);
    }

    private static Map<String, Long> part(String line, String name) {
        Matcher m = Pattern.compile("\"" + name + "\": \\{([^}]*)}").matcher(line);
        assertTrue(m.find(), name);
        return numbers(m.group(1));
    }

    private static Map<String, Long> numbers(String text) {
        Map<String, Long> found = new HashMap<>();
        Matcher m = Pattern.compile("\"(\\w+)\": (\\d+)").matcher(text);
        while (m.find()) {
            found.put(m.group(1), Long.valueOf(m.group(2)));
        }
        return found;
    }

    @Test
    void theBoundIsNeverBelowWhatWasSeenInItsWindow() {
        Random random = new Random(1);
        RecoveryBound bound = new RecoveryBound(EpochStore.Mode.RESERVE, waiting());
        long[] sums = new long[64];
        int above = 0;
        for (int i = 0; i < 1000; i++) {
            long leave = random.nextInt(80) * MS, election = random.nextInt(150) * MS, recovery = random.nextInt(300) * MS;
            bound.leave.add(leave);
            bound.election.add(election);
            bound.recovery.add(recovery);
            sums[i % 64] = leave + election + recovery;
            above += sums[i % 64] > 193 * MS ? 1 : 0;
            for (long sum : sums) {
                assertTrue(bound.boundNs(3) >= sum);
            }
        }
        assertTrue(above > 100);
    }
}
