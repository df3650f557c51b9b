package giusto.coordination.model;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import giusto.coordination.model.Traces.Event;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What real servers did (harness/traces.py) is what the model can do; the same with one thing wrong is not. */
class TracesTest {

    private static List<Event> recorded(String name) throws IOException {
        return Traces.read(Path.of("src/test/resources/traces/" + name + ".trace"));
    }

    @ParameterizedTest
    @CsvSource({"STRICT, strict-1", "STRICT, strict-2", "RESERVE, reserve-1", "RESERVE, reserve-2", "OVERLAP, overlap-1",
        "OVERLAP, overlap-2"})
    void whatRealServersDidTheModelCanDoAndNothingThatIsWrong(Variant variant, String name) throws IOException {
        List<Event> events = recorded(name);
        assertEquals(-1, Traces.refused(variant, events), () -> "the model cannot do " + name);
        Map<String, Integer> refused = new TreeMap<>();
        for (int i = 0; i < events.size(); i++) {
            Event e = events.get(i);
            switch (e.what) {
            case "info":
                wrong(variant, events, i, new Event(e.what, e.from, e.to, e.epoch, e.disk - 1), "a leader's promise is not on disk", refused);
                wrong(variant, events, i, new Event(e.what, e.from, e.to, e.epoch + 1, e.disk + 1), "a leader skips an epoch", refused);
                break;
            case "promised":
                wrong(variant, events, i, new Event(e.what, e.from, e.to, e.epoch, e.disk - 1), "a promise is not on disk", refused);
                break;
            case "entered":
                wrong(variant, events, i, new Event(e.what, e.from, e.to, e.epoch, e.disk - 1), "currentEpoch is not on disk", refused);
                wrong(variant, without(events, i - 1, "new", e), -1, null, "NEWLEADER was never sent", refused);
                break;
            case "follows":
                if (shown(events, i, e.from) == e.disk) {
                    wrong(variant, events, i, new Event(e.what, e.from, e.to, 0, e.disk - 1), "a promise is forgotten", refused);
                }
                // One more may have been promised and another reserved before it was killed.
                wrong(variant, events, i, new Event(e.what, e.from, e.to, 0, e.disk + 3), "a promise is invented", refused);
                break;
            case "serves":
                wrong(variant, events, i, new Event(e.what, e.from, e.to, e.epoch, e.disk - 1), "a leader has not entered", refused);
                wrong(variant, without(events, i - 1, "entered", e), -1, null, "it serves without an acknowledgement", refused);
                break;
            default:
            }
        }
        System.out.printf("epochs: %s of %d events; refused: %s%n", name, events.size(), refused);
        assertEquals(9, refused.size(), "not every kind of wrong occurred");
    }

    /** The last epoch that a server said before an event that it has promised, or was the leader of. */
    private static int shown(List<Event> events, int before, int server) {
        int last = 0;
        for (Event e : events.subList(0, before)) {
            if (e.from == server && (e.what.equals("promised") || e.what.equals("info"))) {
                last = e.epoch;
            }
        }
        return last;
    }

    /** The trace with event {@code at} replaced is refused there; the kind of wrong is counted. */
    private static void wrong(Variant variant, List<Event> events, int at, Event instead, String kind, Map<String, Integer> refused) {
        if (events == null) {
            return;
        }
        List<Event> other = new ArrayList<>(events);
        if (instead != null) {
            other.set(at, instead);
        }
        assertTrue(Traces.refused(variant, other) >= 0, () -> kind + " at " + at + " was not found");
        refused.merge(kind, 1, Integer::sum);
    }

    /** The trace without the last event of this kind between the two of {@code e} before it. */
    private static List<Event> without(List<Event> events, int before, String what, Event e) {
        for (int i = before; i >= 0; i--) {
            Event f = events.get(i);
            boolean pair = f.from == e.from && f.to == e.to || f.from == e.to && f.to == e.from;
            if (pair && f.what.equals(what)) {
                List<Event> other = new ArrayList<>(events);
                other.remove(i);
                return other;
            }
        }
        return null;
    }
}
