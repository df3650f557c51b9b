package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import org.junit.jupiter.api.Test;

class SuspectTest {

    private final Suspect suspect = new Suspect();

    @Test
    void votesOfASilentLeaderAndForItAreLeftOutForAWhile() {
        assertFalse(suspect.concerns(3, 3, 0));
        suspect.silent(3, 100);
        assertTrue(suspect.concerns(3, 3, 100));
        assertTrue(suspect.concerns(3, 1, 100), "it votes for another");
        assertTrue(suspect.concerns(2, 3, 99 + Suspect.DEAF_NS), "another votes for it");
        assertFalse(suspect.concerns(2, 1, 100));
        assertFalse(suspect.concerns(3, 3, 100 + Suspect.DEAF_NS), "where no other can be elected it is listened to again");
        suspect.silent(3, 200);
        suspect.answered();
        assertFalse(suspect.concerns(3, 3, 200));
    }

    @Test
    void aLeaderThatIsOnlySlowGetsTwiceAsLongEachTimeUpToInitLimit() {
        long[] expected = {400, 800, 1600, 2000, 2000};
        for (long patience : expected) {
            assertEquals(patience, suspect.patienceMs(400, 2000));
            suspect.silent(1, 0);
        }
        for (int i = 0; i < 1000; i++) {
            suspect.silent(1, 0);
        }
        assertEquals(2000, suspect.patienceMs(400, 2000));
        suspect.answered();
        assertEquals(400, suspect.patienceMs(400, 2000));
        assertEquals(Suspect.LEAST_MS, suspect.patienceMs(100, 2000), "a recovery takes a while");
        assertEquals(Suspect.LEAST_MS, suspect.patienceMs(100, 200), "however short initLimit is");
    }

    @Test
    void oneThatFellSilentIsLeftOutForAsLongAgain() {
        suspect.fellSilent(3, 400, 100);
        assertTrue(suspect.concerns(2, 3, 100 + 399_000_000L));
        assertFalse(suspect.concerns(2, 3, 100 + 400_000_000L), "it may only have paused");
        suspect.fellSilent(3, 120, 100);
        assertTrue(suspect.concerns(3, 3, 100 + 299_000_000L), "the others have noticed by then");
        suspect.fellSilent(3, 10_000, 100);
        assertFalse(suspect.concerns(3, 3, 100 + Suspect.DEAF_NS));
        assertEquals(400, suspect.patienceMs(400, 2000), "which says nothing about another");
    }
}
