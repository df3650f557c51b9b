package giusto.coordination.model;

import java.util.EnumSet;
import java.util.Set;

/** A way to keep epochs: the modes of giusto-zookeeper, what the papers and first ideas proposed, and deliberate faults. */
public enum Variant {
    /** Stock: both epochs are forced when they change. */
    STRICT(Disk.FORCED),
    /** The promise is reserved while there is no leader. */
    RESERVE(Disk.RESERVED),
    /** As reserve; currentEpoch is staged beforehand and published when history is durable. */
    OVERLAP(Disk.RESERVED, Trait.STAGES),
    /** [LiH21]'s DEVP: epochs only in memory; who restarts reads a quorum's. */
    TABLE(Disk.NONE),
    /** The mode "memory" of giusto-zookeeper: written, never forced. */
    UNFORCED(Disk.UNFORCED),
    /** The same, where no machine loses power and processes are only killed. */
    UNFORCED_KILLED(Disk.UNFORCED, Trait.KEEPS_POWER),
    /** The first idea: currentEpoch need only be durable before the first append of its epoch. */
    APPEND_GATE(Disk.RESERVED, Trait.GATES_APPEND),

    // Deliberate faults, each of the mode it is a fault of.
    FAULT_ACKEPOCH_BEFORE_PROMISE(Disk.RESERVED, Trait.ACKS_EPOCH_EARLY),
    FAULT_CURRENT_BEFORE_HISTORY(Disk.FORCED, Trait.CURRENT_FIRST),
    FAULT_NEWLEADER_ACK_BEFORE_HISTORY(Disk.FORCED, Trait.ACKS_HISTORY_EARLY),
    FAULT_NEWLEADER_ACK_BEFORE_CURRENT(Disk.FORCED, Trait.ACKS_CURRENT_EARLY),
    FAULT_TAKES_BACK_A_PROMISE(Disk.RESERVED, Trait.SETTLES_STALE),
    FAULT_PUBLISHES_EARLY(Disk.RESERVED, Trait.STAGES, Trait.PUBLISHES_EARLY),
    FAULT_NO_AHEAD_CHECK(Disk.FORCED, Trait.TRUSTS_ELECTION),
    FAULT_SAME_EPOCH_COUNTS(Disk.FORCED, Trait.PROMISES_TWICE),
    FAULT_FORGETS_TO_TRUNCATE(Disk.FORCED, Trait.KEEPS_TAIL);

    /** How the promise reaches the disk. */
    enum Disk { FORCED, RESERVED, UNFORCED, NONE }

    enum Trait {
        STAGES, GATES_APPEND, ACKS_EPOCH_EARLY, CURRENT_FIRST, ACKS_HISTORY_EARLY, ACKS_CURRENT_EARLY,
        SETTLES_STALE, PUBLISHES_EARLY, TRUSTS_ELECTION, PROMISES_TWICE, KEEPS_TAIL,
        KEEPS_POWER
    }

    final Disk disk;
    private final Set<Trait> traits = EnumSet.noneOf(Trait.class);

    Variant(Disk disk, Trait... traits) {
        this.disk = disk;
        for (Trait t : traits) {
            this.traits.add(t);
        }
    }

    boolean has(Trait trait) {
        return traits.contains(trait);
    }
}
