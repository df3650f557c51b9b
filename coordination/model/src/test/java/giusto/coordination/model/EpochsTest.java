package giusto.coordination.model;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** GIUSTO_SOAK=1 widens the bounds of what must be safe. */
class EpochsTest {

    private static final boolean SOAK = System.getenv("GIUSTO_SOAK") != null;
    private static final int MOST = SOAK ? 40_000_000 : 6_000_000;

    private static Explorer.Result explore(Variant variant, boolean inherited, int epochs, int txns, int losses) {
        long start = System.nanoTime();
        Model model = new Model(variant, epochs, txns);
        Explorer.Result r = new Explorer(model, MOST).run(inherited ? model.inherited(losses) : model.first(losses));
        System.out.printf("%s: 3 servers%s, %d epochs, %d transactions, %d losses: %d states, %d steps, depth %d, %s, %.1f s%n", variant,
            inherited ? ", one inherited transaction" : "", epochs, txns, losses, r.states, r.steps, r.depth,
            r.broken != null ? "BROKEN: " + r.broken : r.complete ? "all visited" : "cut off", (System.nanoTime() - start) / 1e9);
        r.history.forEach(step -> System.out.println("    " + step));
        return r;
    }

    private static void safe(Explorer.Result r) {
        assertNull(r.broken);
        assertTrue(r.complete, "cut off");
    }

    /** Where it is all that differs, the same bounds break APPEND_GATE. */
    @ParameterizedTest
    @EnumSource(names = {"STRICT", "RESERVE", "OVERLAP"})
    void whatAClientHasSeenStays(Variant variant) {
        safe(explore(variant, true, 4, 1, 2));
        safe(explore(variant, false, 3, 1, 2));
        // What breaks FAULT_FORGETS_TO_TRUNCATE, which is a fault of this one.
        if (variant == Variant.STRICT) {
            safe(explore(variant, false, 3, 2, 1));
        }
        if (SOAK) {
            safe(explore(variant, false, 4, 1, 2));
            safe(explore(variant, true, 4, 2, 2));
            safe(explore(variant, false, 3, 2, 2));
            safe(explore(variant, false, 3, 1, 3));
        }
    }

    @ParameterizedTest
    @EnumSource(names = {"STRICT", "RESERVE", "OVERLAP", "UNFORCED_KILLED"}, mode = EnumSource.Mode.EXCLUDE)
    void whatIsNotSafeIsFound(Variant variant) {
        // Those that lose currentEpoch alone need a history to lose to.
        boolean inherited = Set.of(Variant.APPEND_GATE, Variant.FAULT_NEWLEADER_ACK_BEFORE_CURRENT).contains(variant);
        Set<Variant> once =
                Set.of(Variant.FAULT_TAKES_BACK_A_PROMISE, Variant.UNFORCED, Variant.FAULT_FORGETS_TO_TRUNCATE);
        int losses = once.contains(variant) ? 1 : 2;
        // What is not truncated contradicts only what comes in its place.
        int txns = variant == Variant.FAULT_FORGETS_TO_TRUNCATE ? 2 : 1;
        Explorer.Result r = explore(variant, inherited, inherited ? 4 : 3, txns, losses);
        assertNotNull(r.broken, variant + " was not found to be unsafe");
    }

    /** The mode "memory" survives what the paper tried: processes that are killed while machines go on. */
    @Test
    void whatIsOnlyKilledForgetsNothingThatWasWritten() {
        safe(explore(Variant.UNFORCED_KILLED, false, SOAK ? 3 : 2, 1, 2));
    }
}
