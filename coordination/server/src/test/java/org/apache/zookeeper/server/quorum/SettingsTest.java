package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.util.Properties;
import org.junit.jupiter.api.Test;

class SettingsTest {

    private static Settings of(String... pairs) {
        Properties p = new Properties();
        for (int i = 0; i < pairs.length; i += 2) {
            p.setProperty(pairs[i], pairs[i + 1]);
        }
        return Settings.of(p);
    }

    private static String refusal(String... pairs) {
        return assertThrows(Settings.Wrong.class, () -> of(pairs)).getMessage();
    }

    @Test
    void withoutAnyAllFeaturesAreOnAndEpochsAreReserved() {
        Settings s = of("zookeeper.dataDir", "/x");
        assertEquals(EpochStore.Mode.RESERVE, s.epochs);
        assertEquals(0, s.waitNs);
        for (Settings.Feature f : Settings.Feature.values()) {
            assertTrue(s.has(f));
        }
    }

    @Test
    void aLeaderStepsDownBeforeItsFollowersLeaveAndNotBeforeTheyCanAnswer() {
        Settings planned = of("giusto.step-down", "98ms");
        planned.checkStepDown(24, 5);
        assertEquals(98_000_000, planned.stepDownNs(24, 5));
        assertTrue(assertThrows(Settings.Wrong.class, () -> planned.checkStepDown(24, 4)).getMessage().contains("shorter"));
        Settings soon = of("giusto.step-down", "12ms");
        assertTrue(assertThrows(Settings.Wrong.class, () -> soon.checkStepDown(24, 5)).getMessage().contains("longer"));
        // Without: half a tick before its followers.
        of().checkStepDown(100, 4);
        assertEquals(350_000_000, of().stepDownNs(100, 4));
        assertEquals(0, of().stepDownNs(2000, 1));
    }

    @Test
    void keysOfZooCfgAndOfTheCommandLineMeanTheSame() {
        assertEquals(25_000_000, of("zookeeper.giusto.wait", "25ms").waitNs);
        assertEquals(25_000_000, of("giusto.wait", "25ms").waitNs);
        assertEquals(25_000_000, of("giusto.wait", "25ms", "zookeeper.giusto.wait", "25ms").waitNs);
        assertTrue(refusal("giusto.wait", "25ms", "zookeeper.giusto.wait", "30ms").contains("disagree"));
    }

    @Test
    void anUnknownKeyIsRefusedWithTheNearestKnownOne() {
        assertTrue(refusal("zookeeper.giusto.waitt", "20ms").contains("giusto.waitt; did you mean giusto.wait?"));
        assertTrue(refusal("giusto.epoch", "strict").contains("did you mean giusto.epochs?"));
        assertTrue(refusal("giusto.feature", "fcle").contains("did you mean giusto.features?"));
    }

    @Test
    void memoryStartsOnlyWhereItsRiskIsAccepted() {
        assertTrue(refusal("giusto.epochs", "memory").contains("giusto.epochs.accept = acknowledged-writes-may-be-lost"));
        assertTrue(refusal("giusto.epochs", "memory", "giusto.epochs.accept", "true").contains("only goes with"));
        assertTrue(refusal("giusto.epochs.accept", Settings.ACCEPTED).contains("only goes with"));
        assertEquals(EpochStore.Mode.MEMORY, of("giusto.epochs", "memory", "giusto.epochs.accept", Settings.ACCEPTED).epochs);
    }

    @Test
    void durationsCarryAUnitAndLieWithinStocksWait() {
        for (String bad : new String[] {"20", "20 ms", "-1ms", "0ms", "1.5ms", "201ms", "1s", "", "on", "99999999999ms"}) {
            assertThrows(Settings.Wrong.class, () -> of("giusto.wait", bad), bad);
            assertThrows(Settings.Wrong.class, () -> of("giusto.jitter", bad), bad);
        }
        assertEquals(200_000_000, of("giusto.wait", "200ms").waitNs);
        assertEquals(1_000, of("giusto.delay", "1us").delayNs);
    }

    @Test
    void aWaitThatIsNotLongerThanJitterAndDelayIsRefused() {
        assertTrue(refusal("giusto.wait", "20ms", "giusto.jitter", "17ms").contains("not longer than"));
        assertEquals(21_000_000, of("giusto.wait", "21ms", "giusto.jitter", "17ms").waitNs);
        assertTrue(refusal("giusto.jitter", "150ms", "giusto.delay", "50ms").contains("200ms"));
    }

    @Test
    void featuresAreNamed() {
        Settings s = of("giusto.features", "fcle, fqce");
        assertTrue(s.has(Settings.Feature.FCLE) && s.has(Settings.Feature.FQCE));
        assertFalse(s.has(Settings.Feature.SNAPSHOT) || s.has(Settings.Feature.UNANIMOUS) || s.has(Settings.Feature.WARM));
        assertTrue(refusal("giusto.features", "fcle,").contains("known are fcle, fqce, unanimous, snapshot, warm, rehearse"));
    }
}
