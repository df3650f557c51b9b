package giusto.coordination.model;

import static giusto.coordination.model.State.*;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;

/**
 * Whether what real servers did is what the model can do: a trace of messages between three servers, each with what was on the
 * sender's disk when it was sent, is played by the model, with every step of the model that the messages so far allow.
 *
 * <p>A line is an event; harness/traces.py writes them. A server receives a message after its line, so the step of the receiver
 * may come at any later time. Servers are 1 to 3.
 *
 * <pre>
 *   follows A B accepted      FOLLOWERINFO from A to B: A has promised this epoch last
 *   info B A epoch disk       LEADERINFO from B to A; acceptedEpoch on B's disk
 *   promised A B epoch disk   ACKEPOCH from A to B; acceptedEpoch on A's disk
 *   new B A epoch disk        NEWLEADER from B to A; currentEpoch on B's disk
 *   entered A B epoch disk    A acknowledges NEWLEADER to B; currentEpoch on A's disk
 *   serves B A epoch disk     UPTODATE from B to A; currentEpoch on B's disk
 *   lost A                    A is killed, and starts again at any later time
 * </pre>
 */
public final class Traces {

    /** A line of a trace; {@code disk} is what FOLLOWERINFO says for {@code follows}. */
    static final class Event {

        final String what;
        final int from;
        final int to;
        final int epoch;
        final int disk;

        Event(String what, int from, int to, int epoch, int disk) {
            this.what = what;
            this.from = from;
            this.to = to;
            this.epoch = epoch;
            this.disk = disk;
        }

        static Event of(String line) {
            String[] words = line.trim().split(" ");
            int[] n = Arrays.stream(words).skip(1).mapToInt(Integer::parseInt).toArray();
            switch (words[0]) {
            case "lost":
                return new Event(words[0], n[0] - 1, -1, 0, 0);
            case "follows":
                return new Event(words[0], n[0] - 1, n[1] - 1, 0, n[2]);
            case "info":
            case "promised":
            case "new":
            case "entered":
            case "serves":
                return new Event(words[0], n[0] - 1, n[1] - 1, n[2], n[3]);
            default:
                throw new IllegalArgumentException("no event: " + line);
            }
        }

        @Override
        public String toString() {
            String pair = to < 0 ? " " + (from + 1) : " " + (from + 1) + " " + (to + 1);
            return what + pair + (epoch > 0 ? " " + epoch : "") + (to < 0 ? "" : " " + disk);
        }
    }

    private static final int EPOCHS = 100;

    private final Model model;
    /** Messages of each pair's current connection, as "info 0 1" for a follower 0 and its leader 1. */
    private final Set<String> sent = new HashSet<>();
    private Set<State> now = new HashSet<>();

    private Traces(Variant variant) {
        model = new Model(variant, EPOCHS, 0);
        now.add(model.first(0));
    }

    /** The place of the first event that the model cannot do, from 0, or -1. */
    static int refused(Variant variant, List<Event> events) {
        Traces t = new Traces(variant);
        for (int i = 0; i < events.size(); i++) {
            t.event(events.get(i));
            if (t.now.isEmpty()) {
                return i;
            }
        }
        return -1;
    }

    private void event(Event e) {
        switch (e.what) {
        case "lost":
            now = lose(e.from);
            sent.removeIf(key -> key.matches(".* " + e.from + "( .*)?"));
            break;
        case "follows":
            now = leave(e.from, e.to);
            now.removeIf(s -> s.get(e.from, ACCEPTED) != e.disk);
            sent.removeIf(key -> key.endsWith(" " + e.from + " " + e.to));
            break;
        default:
            now.removeIf(s -> !sends(s, e));
        }
        if (e.to >= 0) {
            boolean up = e.what.equals("follows") || e.what.equals("promised") || e.what.equals("entered");
            sent.add(e.what + " " + (up ? e.from + " " + e.to : e.to + " " + e.from));
        }
        close();
    }

    /** Whether a server can have sent this, with this on its disk. */
    private static boolean sends(State s, Event e) {
        boolean up = e.what.equals("promised") || e.what.equals("entered");
        int a = up ? e.from : e.to;
        int b = up ? e.to : e.from;
        if (s.get(a, ROLE) != FOLLOWING || s.get(a, LEADER) != b || s.get(a, EPOCH) != e.epoch || s.get(b, EPOCH) != e.epoch) {
            return false;
        }
        switch (e.what) {
        case "info":
            return s.get(b, PHASE) >= Model.PROMISED && accepted(s, b, e.disk);
        case "promised":
            return s.get(a, PHASE) >= Model.HAS_PROMISED && accepted(s, a, e.disk);
        case "new":
            return s.get(b, PHASE) >= Model.SYNCHRONISING && s.get(b, DISK_CURRENT) == e.disk;
        case "entered":
            return s.get(a, PHASE) >= Model.HAS_CURRENT && s.get(a, DISK_CURRENT) == e.disk;
        default:
            return s.get(b, PHASE) == Model.SERVING && s.get(a, PHASE) == Model.ACKNOWLEDGED && s.get(b, DISK_CURRENT) == e.disk;
        }
    }

    /** What acceptedEpoch can be on disk: the last forced write, or one in the background that has ended. */
    private static boolean accepted(State s, int a, int value) {
        return value == s.get(a, DISK_ACCEPTED) || value > 0 && (value == s.get(a, TO_RESERVE) || value == s.get(a, TO_SETTLE));
    }

    private Set<State> lose(int a) {
        Set<State> after = new HashSet<>();
        for (State s : now) {
            State t = s.copy();
            t.f[LOSSES] = 1;
            model.next(t, (name, u) -> {
                if (u.f[LOSSES] == 0 && name.endsWith(" " + (char) ('A' + a))) {
                    after.add(u);
                }
            });
        }
        return after;
    }

    /** A leaves whom it followed for B, which leads, perhaps anew. */
    private Set<State> leave(int a, int b) {
        Set<State> after = new HashSet<>();
        for (State s : step("loses its connection " + (char) ('A' + a), a, now, false)) {
            if (s.get(b, ROLE) == LEADING) {
                after.add(s);
            }
            Set<State> looks = step("loses its connection " + (char) ('A' + b), b, Set.of(s), false);
            after.addAll(step("leads " + (char) ('A' + b), b, looks, true));
        }
        return after;
    }

    /** The states after one step; those of a server that already looks stay as they are where the step is to look. */
    private Set<State> step(String wanted, int a, Set<State> from, boolean must) {
        Set<State> after = new HashSet<>();
        for (State s : from) {
            if (!must && s.get(a, ROLE) == LOOKING) {
                after.add(s);
            }
            model.next(s, (name, t) -> {
                if (name.equals(wanted)) {
                    after.add(t);
                }
            });
        }
        return after;
    }

    /** Adds all that can come by receiving what was sent. */
    private void close() {
        Deque<State> open = new ArrayDeque<>(now);
        while (!open.isEmpty()) {
            State s = open.pop();
            model.next(s, (name, t) -> {
                if (received(s, name) && now.add(t)) {
                    open.push(t);
                }
            });
        }
    }

    private static final Map<String, String> NEEDS = new LinkedHashMap<>();

    static {
        NEEDS.put("connects", "follows");
        NEEDS.put("promises", "info");
        NEEDS.put("had promised", "info");
        NEEDS.put("refuses", "info");
        NEEDS.put("acknowledges epoch", "promised");
        NEEDS.put("is ahead", "promised");
        NEEDS.put("takes history", "promised");
        NEEDS.put("enters the epoch", "new");
        NEEDS.put("acknowledges NEWLEADER", "entered");
    }

    /** Whether a step of the model is of the receiver of a message that was sent, or a leader's own. */
    private boolean received(State s, String name) {
        if (name.startsWith("enters its own epoch")) {
            return true;
        }
        for (Map.Entry<String, String> one : NEEDS.entrySet()) {
            if (name.startsWith(one.getKey())) {
                int with = name.indexOf(" with ");
                int a = with >= 0 ? name.charAt(with - 1) - 'A' : name.charAt(name.length() - 1) - 'A';
                int b = with >= 0 ? name.charAt(with + 6) - 'A' : s.get(a, LEADER);
                return sent.contains(one.getValue() + " " + a + " " + b);
            }
        }
        return false;
    }

    static List<Event> read(Path file) throws IOException {
        List<Event> events = new ArrayList<>();
        for (String line : Files.readAllLines(file)) {
            if (!line.isBlank() && !line.startsWith("#")) {
                events.add(Event.of(line));
            }
        }
        return events;
    }

    /** MODE FILE ...: exit code 1 where the model of this mode cannot do what a file says. */
    public static void main(String[] args) throws IOException {
        Variant variant = Variant.valueOf(args[0].toUpperCase(Locale.ROOT));
        for (String file : Arrays.asList(args).subList(1, args.length)) {
            List<Event> events = read(Path.of(file));
            int at = refused(variant, events);
            if (at >= 0) {
                System.out.printf("%s: the model of %s cannot do event %d: %s%n", file, args[0], at + 1, events.get(at));
                System.exit(1);
            }
            System.out.printf("%s: %d events, as the model of %s does%n", file, events.size(), args[0]);
        }
    }
}
