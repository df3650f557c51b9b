package giusto.coordination.model;

import static giusto.coordination.model.State.*;
import giusto.coordination.model.Variant.Disk;
import giusto.coordination.model.Variant.Trait;
import java.util.function.BiConsumer;

/**
 * What can happen: the recovery of ZAB as ZooKeeper 3.9.5 and 3.9.6 do it (Leader, Learner, LearnerHandler), step by step where
 * a crash or a slow disk can come between.
 *
 * <p>More is allowed than can happen. Any server may lead without an election (ZAB's safety rests on the checks of its
 * followers); any connection may break at any time, which with steps that are simply not taken is every partition; a message is
 * received when the receiver's step is taken, or never; any server may lose its process and what was not forced at any time, up
 * to a number of losses. Writes in the background end at any later time, or are lost: which of them, is decided when the server
 * is lost, because no step can observe it earlier. A reader sees what is committed as soon as it is.
 *
 * <p>Laws: what a client has seen is never contradicted (by a commit, or by a follower that serves), and every leader that
 * begins to serve has all of it.
 */
final class Model {

    // Phases of a leader.
    private static final int DISCOVERY = 0;
    static final int PROMISED = 1;
    static final int SYNCHRONISING = 2;
    static final int SERVING = 3;
    // Phases of a follower: it is connected; has promised; may take history; has it on disk; has currentEpoch on disk; is acknowledged.
    private static final int CONNECTED = 0;
    static final int HAS_PROMISED = 1;
    private static final int WELCOME = 2;
    private static final int HAS_HISTORY = 3;
    static final int HAS_CURRENT = 4;
    static final int ACKNOWLEDGED = 5;

    private final Variant variant;
    private final int epochs;
    private final int txns;

    Model(Variant variant, int epochs, int txns) {
        this.variant = variant;
        this.epochs = epochs;
        this.txns = txns;
    }

    State first(int losses) {
        State s = new State(new byte[SIZE]);
        s.f[LOSSES] = (byte) losses;
        for (int i = 0; i < SERVERS; i++) {
            look(s, i);
        }
        return s;
    }

    /** Epoch 1 was led by A, and all took part; A logged a transaction that no other server has; then all connections broke. */
    State inherited(int losses) {
        State s = new State(new byte[SIZE]);
        s.f[LOSSES] = (byte) losses;
        s.f[PROPOSED] = 1;
        s.f[EPOCH_OF + 1] = 1;
        s.append(0, 1);
        for (int i = 0; i < SERVERS; i++) {
            for (int field : new int[] {ACCEPTED, CURRENT, DISK_ACCEPTED, DISK_CURRENT}) {
                s.set(i, field, 1);
            }
            look(s, i);
        }
        return s;
    }

    /** Calls {@code to} with every state that can follow, and the step's name; throws Clients.Broken where one breaks a law. */
    void next(State s, BiConsumer<String, State> to) {
        for (int a = 0; a < SERVERS; a++) {
            local(s, a, to);
            for (int b = 0; b < SERVERS; b++) {
                if (a != b) {
                    pair(s, a, b, to);
                }
            }
        }
    }

    private static String name(String what, int a) {
        return what + " " + (char) ('A' + a);
    }

    private void local(State s, int a, BiConsumer<String, State> to) {
        int role = s.get(a, ROLE);
        if (role == LOOKING) {
            State t = s.copy();
            t.set(a, ROLE, LEADING);
            to.accept(name("leads", a), t);
        } else if (role != DOWN) {
            State t = s.copy();
            look(t, a);
            to.accept(name("loses its connection", a), t);
        }
        if (s.f[LOSSES] > 0) {
            losses(s, a, to);
        }
        if (role == LEADING && s.get(a, PHASE) == SERVING && s.f[PROPOSED] < txns && s.get(a, LENGTH) < MAX_TXNS) {
            State t = s.copy();
            int txn = ++t.f[PROPOSED];
            t.f[EPOCH_OF + txn] = (byte) s.get(a, EPOCH);
            appendGated(t, a, txn);
            to.accept(name("logs a proposal of epoch " + s.get(a, EPOCH) + ",", a), t);
        }
        if (role == LEADING && s.get(a, PHASE) == SYNCHRONISING && s.get(a, CURRENT) != s.get(a, EPOCH)) {
            State t = s.copy();
            enter(t, a);
            to.accept(name("enters its own epoch,", a), t);
        }
        if (role == FOLLOWING && s.get(a, PHASE) == HAS_HISTORY) {
            State t = s.copy();
            enter(t, a);
            t.set(a, PHASE, HAS_CURRENT);
            to.accept(name("enters the epoch,", a), t);
        }
    }

    /** Steps of a server a with a leader b. */
    private void pair(State s, int a, int b, BiConsumer<String, State> to) {
        String both = (char) ('A' + a) + " with " + (char) ('A' + b);
        if (s.get(a, ROLE) == DOWN && variant.disk == Disk.NONE && s.get(b, ROLE) != DOWN) {
            State t = s.copy();
            t.set(a, ACCEPTED, s.get(b, ACCEPTED));
            t.set(a, CURRENT, s.get(b, CURRENT));
            look(t, a);
            to.accept("reads the epoch table: " + both, t);
        }
        if (s.get(b, ROLE) != LEADING) {
            return;
        }
        if (s.get(a, ROLE) == LOOKING) {
            connect(s, a, b, to, both);
        }
        if (s.get(a, ROLE) != FOLLOWING || s.get(a, LEADER) != b) {
            return;
        }
        switch (s.get(a, PHASE)) {
        case CONNECTED:
            leaderInfo(s, a, b, to, both);
            break;
        case HAS_PROMISED:
            ackEpoch(s, a, b, to, both);
            break;
        case WELCOME:
            if (s.get(b, PHASE) >= SYNCHRONISING) {
                takeHistory(s, a, b, to, both);
            }
            break;
        case HAS_CURRENT:
            if (s.get(b, CURRENT) != s.get(b, EPOCH)) {
                // Counted once the leader acknowledges too: this cannot be distinguished from receiving it later.
                return;
            }
            State t = s.copy();
            t.set(a, PHASE, ACKNOWLEDGED);
            if (t.get(b, PHASE) == SYNCHRONISING) {
                t.set(b, PHASE, SERVING);
                settle(t, b);
                Clients.serves(t, b);
            }
            settle(t, a);
            Clients.agrees(t, a);
            to.accept("acknowledges NEWLEADER: " + both, t);
            break;
        case ACKNOWLEDGED:
            replicate(s, a, b, to, both);
            break;
        default:
        }
    }

    /** FOLLOWERINFO; with the first follower there is a quorum, and the leader promises the next epoch. */
    private void connect(State s, int a, int b, BiConsumer<String, State> to, String both) {
        State t = s.copy();
        follow(t, a, b);
        if (s.get(b, PHASE) == DISCOVERY) {
            int epoch = Math.max(s.get(a, ACCEPTED), s.get(b, ACCEPTED)) + 1;
            if (epoch > epochs) {
                return;
            }
            t.set(b, EPOCH, epoch);
            t.set(b, PHASE, PROMISED);
            promise(t, b, epoch, false);
        }
        t.set(a, EPOCH, t.get(b, EPOCH));
        to.accept("connects: " + both + ", epoch " + t.get(b, EPOCH), t);
    }

    /** LEADERINFO: an epoch is promised to one leader only; who promised a later one leaves. */
    private void leaderInfo(State s, int a, int b, BiConsumer<String, State> to, String both) {
        int epoch = s.get(a, EPOCH);
        int accepted = s.get(a, ACCEPTED);
        State t = s.copy();
        if (epoch > accepted || (epoch == accepted && variant.has(Trait.PROMISES_TWICE))) {
            promise(t, a, epoch, variant.has(Trait.ACKS_EPOCH_EARLY));
            t.set(a, PHASE, HAS_PROMISED);
            to.accept("promises " + epoch + ": " + both, t);
        } else if (epoch == accepted) {
            // It is not counted, but may take part once others have made the leader.
            t.set(a, PHASE, WELCOME);
            to.accept("had promised " + epoch + ": " + both, t);
        } else {
            look(t, a);
            to.accept("refuses epoch " + epoch + ": " + both, t);
        }
    }

    /**
     * ACKEPOCH: counted unless the follower's history is ahead; with a quorum the leader begins to send history. It enters its epoch
     * meanwhile (traces of real servers showed that: the threads of followers do not wait for it), and before it serves.
     */
    private void ackEpoch(State s, int a, int b, BiConsumer<String, State> to, String both) {
        State t = s.copy();
        t.set(a, PHASE, WELCOME);
        if (s.get(b, PHASE) == PROMISED) {
            boolean ahead = s.get(a, CURRENT) > s.get(b, CURRENT)
                || (s.get(a, CURRENT) == s.get(b, CURRENT) && s.lastZxid(a) > s.lastZxid(b));
            if (ahead && !variant.has(Trait.TRUSTS_ELECTION)) {
                look(t, a);
                to.accept("is ahead of its leader: " + both, t);
                return;
            }
            t.set(b, PHASE, SYNCHRONISING);
        }
        to.accept("acknowledges epoch " + s.get(a, EPOCH) + ": " + both, t);
    }

    /** DIFF, TRUNC or SNAP. Where zxids agree, transactions are taken to be the same. */
    private void takeHistory(State s, int a, int b, BiConsumer<String, State> to, String both) {
        State t = s.copy();
        int common = 0;
        int most = Math.min(s.get(a, LENGTH), s.get(b, LENGTH));
        while (common < most && s.epochOf(s.log(a, common)) == s.epochOf(s.log(b, common))) {
            common++;
        }
        if (variant.has(Trait.CURRENT_FIRST) && s.get(a, CURRENT) != s.get(a, EPOCH)) {
            enter(t, a);
            to.accept("enters the epoch before it has history: " + both, t);
            return;
        }
        if (!variant.has(Trait.KEEPS_TAIL)) {
            t.truncate(a, common);
        }
        for (int i = common; i < s.get(b, LENGTH) && t.get(a, LENGTH) < MAX_TXNS; i++) {
            t.append(a, s.log(b, i));
        }
        t.set(a, DURABLE, variant.has(Trait.ACKS_HISTORY_EARLY) ? common : t.get(a, LENGTH));
        t.set(a, PHASE, HAS_HISTORY);
        to.accept("takes history: " + both, t);
    }

    /** A follower logs the leader's next proposal; its acknowledgement commits it, or is lost with the connection. */
    private void replicate(State s, int a, int b, BiConsumer<String, State> to, String both) {
        int place = s.get(a, LENGTH);
        if (s.get(b, PHASE) != SERVING || place >= s.get(b, LENGTH)) {
            return;
        }
        State lost = s.copy();
        appendGated(lost, a, s.log(b, place));
        State t = lost.copy();
        look(lost, a);
        to.accept("logs a proposal, but the word is lost: " + both, lost);
        Clients.commits(t, b, place + 1);
        to.accept("logs a proposal, which commits it: " + both, t);
    }

    // What is written, and when.

    private void promise(State t, int a, int epoch, boolean early) {
        t.set(a, ACCEPTED, epoch);
        if (variant.disk == Disk.FORCED || (variant.disk == Disk.RESERVED && !early)) {
            t.set(a, DISK_ACCEPTED, Math.max(t.get(a, DISK_ACCEPTED), epoch));
            if (t.get(a, TO_RESERVE) <= t.get(a, DISK_ACCEPTED)) {
                t.set(a, TO_RESERVE, 0);
            }
            if (!variant.has(Trait.SETTLES_STALE)) {
                t.set(a, TO_SETTLE, 0);
            }
        } else if (early) {
            t.set(a, TO_RESERVE, epoch);
        }
        if (variant.has(Trait.STAGES)) {
            t.set(a, STAGED, epoch);
            if (variant.has(Trait.PUBLISHES_EARLY)) {
                t.set(a, DISK_CURRENT, epoch);
            }
        }
    }

    private void enter(State t, int a) {
        int epoch = t.get(a, EPOCH);
        t.set(a, CURRENT, epoch);
        if (variant.has(Trait.GATES_APPEND) || variant.has(Trait.ACKS_CURRENT_EARLY)) {
            t.set(a, UNWRITTEN_CURRENT, epoch);
        } else if (variant.disk == Disk.FORCED || variant.disk == Disk.RESERVED) {
            t.set(a, DISK_CURRENT, epoch);
        }
        t.set(a, STAGED, 0);
    }

    private static void writeCurrent(State t, int a) {
        if (t.get(a, UNWRITTEN_CURRENT) > 0) {
            t.set(a, DISK_CURRENT, t.get(a, UNWRITTEN_CURRENT));
            t.set(a, UNWRITTEN_CURRENT, 0);
        }
    }

    private void appendGated(State t, int a, int txn) {
        writeCurrent(t, a);
        t.append(a, txn);
        t.set(a, DURABLE, t.get(a, LENGTH));
    }

    private void settle(State t, int a) {
        if (variant.disk == Disk.RESERVED && Math.max(t.get(a, DISK_ACCEPTED), t.get(a, TO_RESERVE)) > t.get(a, ACCEPTED)) {
            t.set(a, TO_SETTLE, t.get(a, ACCEPTED));
        }
    }

    // Roles.

    private void follow(State t, int a, int b) {
        t.set(a, ROLE, FOLLOWING);
        t.set(a, PHASE, CONNECTED);
        t.set(a, LEADER, b);
    }

    /** No leader: followers of a leader that stops have none either (what they could still do alone, they can do before). */
    private void look(State t, int a) {
        boolean led = t.get(a, ROLE) == LEADING;
        t.set(a, ROLE, LOOKING);
        t.set(a, PHASE, 0);
        t.set(a, LEADER, 0);
        t.set(a, EPOCH, 0);
        t.set(a, DURABLE, t.get(a, LENGTH));
        if (variant.disk == Disk.RESERVED && t.get(a, ACCEPTED) < epochs && t.get(a, DISK_ACCEPTED) <= t.get(a, ACCEPTED)
            && t.get(a, TO_RESERVE) == 0) {
            t.set(a, TO_RESERVE, t.get(a, ACCEPTED) + 1);
        }
        for (int f = 0; led && f < SERVERS; f++) {
            if (t.get(f, ROLE) == FOLLOWING && t.get(f, LEADER) == a) {
                look(t, f);
            }
        }
    }

    /** The process ends, and with it every write that has not ended; with power, all that was not forced too. */
    private void losses(State s, int a, BiConsumer<String, State> to) {
        int disk = s.get(a, DISK_ACCEPTED);
        if (variant.disk == Disk.UNFORCED) {
            lose(s, a, "is killed:", s.get(a, ACCEPTED), s.get(a, CURRENT), s.get(a, LENGTH), to);
        }
        if (variant.has(Trait.KEEPS_POWER)) {
            return;
        }
        // Which write was the last of those that ended: the forced one, the reservation, or its taking back.
        lose(s, a, "loses power:", disk, s.get(a, DISK_CURRENT), s.get(a, DURABLE), to);
        if (s.get(a, TO_RESERVE) > disk) {
            lose(s, a, "has reserved, loses power:", s.get(a, TO_RESERVE), s.get(a, DISK_CURRENT), s.get(a, DURABLE), to);
        }
        if (s.get(a, TO_SETTLE) > 0) {
            lose(s, a, "has taken its reservation back, loses power:", s.get(a, TO_SETTLE), s.get(a, DISK_CURRENT), s.get(a, DURABLE), to);
        }
        if (s.get(a, UNWRITTEN_CURRENT) > 0) {
            lose(s, a, "has written currentEpoch late, loses power:", disk, s.get(a, UNWRITTEN_CURRENT), s.get(a, DURABLE), to);
        }
        if (s.get(a, DURABLE) < s.get(a, LENGTH)) {
            lose(s, a, "has forced its history late, loses power:", disk, s.get(a, DISK_CURRENT), s.get(a, LENGTH), to);
        }
    }

    /** It starts again at once with what is left: not to act is to be down. */
    private void lose(State s, int a, String how, int accepted, int current, int length, BiConsumer<String, State> to) {
        State t = s.copy();
        t.f[LOSSES]--;
        t.set(a, DISK_ACCEPTED, accepted);
        t.set(a, DISK_CURRENT, current);
        for (int field : new int[] {TO_RESERVE, TO_SETTLE, UNWRITTEN_CURRENT, STAGED}) {
            t.set(a, field, 0);
        }
        t.set(a, ACCEPTED, accepted);
        t.set(a, CURRENT, current);
        t.truncate(a, length);
        look(t, a);
        // Stock refuses to start with a history of an epoch it has not entered.
        boolean refuses = length > 0 && t.epochOf(t.log(a, length - 1)) > current || accepted < current;
        if (variant.disk == Disk.NONE || refuses) {
            t.set(a, ROLE, DOWN);
        }
        to.accept(name(how, a), t);
    }
}
