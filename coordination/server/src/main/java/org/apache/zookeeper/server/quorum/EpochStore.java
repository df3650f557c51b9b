package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.util.concurrent.Executor;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * When the two epochs of ZAB reach the disk.
 *
 * <p>A server <em>promises</em> epoch e when it answers LEADERINFO(e) (a leader: when it sends it), and <em>enters</em> e when
 * its history is that of the leader and it acknowledges NEWLEADER(e). Both must be on disk before they are sent to any server.
 * Stock ZooKeeper writes them at that moment, in the way of the recovery. Here the promise is written beforehand: a server
 * without a leader reserves the epoch after the one it promised. The file is then never lower than the promise, which is all that
 * safety asks (docs/coordination.md); what was reserved and never promised may be lowered again.
 *
 * <p>Called by {@link RtQuorumPeer} from its main thread, and by the threads of a leader's followers. Threads: the lock makes
 * one writer of all. Files are stock's, also in their format.
 */
final class EpochStore {

    private static final Logger LOG = LoggerFactory.getLogger(EpochStore.class);

    enum Mode {
        /** As stock: both epochs are forced to disk when they change. */
        STRICT,
        /** The promise is reserved while the election runs. */
        RESERVE,
        /** As reserve, and the new currentEpoch is forced to a staging file while history is still on its way. */
        OVERLAP,
        /** For study: nothing is forced; a power loss forgets epochs. Not safe. */
        MEMORY
    }

    /** Where epochs are kept. A call that returns has taken effect; after one that throws, its effect is unknown. */
    interface Files {
        /** Replaces a file atomically and forces it, as stock does. */
        void force(String name, long value) throws IOException;

        /** Forces a value to a staging file beside the one named; the file itself does not change. */
        void stage(String name, long value) throws IOException;

        /** Puts the staging file in the place of the file named, atomically. */
        void publish(String name) throws IOException;

        /** Replaces a file without forcing it. */
        void write(String name, long value) throws IOException;
    }

    private static final String ACCEPTED = QuorumPeer.ACCEPTED_EPOCH_FILENAME;
    private static final String CURRENT = QuorumPeer.CURRENT_EPOCH_FILENAME;

    private final Mode mode;
    private final Files files;
    private final Executor background;

    /** The highest epoch promised to any server since this process started, and what the file was. */
    private long promised = -1;
    /** What the file of the promise holds at least, as far as we wrote it; -1 where we have not. */
    private long durable = -1;
    /** The value in the staging file, -1 where there is none. */
    private long staged = -1;

    /**
     * @param background runs reservations in order, off the caller's thread
     */
    EpochStore(Mode mode, Files files, Executor background) {
        this.mode = mode;
        this.files = files;
        this.background = background;
    }

    /** There is no leader: the next promise will most likely be {@code accepted} + 1. Never waits for the disk. */
    void reserve(long accepted) {
        if (mode == Mode.STRICT || mode == Mode.MEMORY) {
            return;
        }
        background.execute(() -> raise(accepted));
    }

    private synchronized void raise(long accepted) {
        promised = Math.max(promised, accepted);
        long epoch = accepted + 1;
        if (durable >= epoch) {
            return;
        }
        try {
            files.force(ACCEPTED, epoch);
            durable = epoch;
        } catch (IOException e) {
            // Nothing depends on it: promise() writes it again, and fails where it matters.
            LOG.warn("Could not reserve epoch {}", epoch, e);
        }
    }

    /**
     * Returns when the promise of an epoch cannot be forgotten: at once where it was reserved.
     *
     * @throws IOException where it could not be written; nothing is promised then
     */
    synchronized void promise(long epoch) throws IOException {
        if (mode == Mode.MEMORY) {
            background.execute(() -> unforced(ACCEPTED, epoch));
            return;
        }
        if (mode == Mode.STRICT || durable < epoch) {
            files.force(ACCEPTED, epoch);
            durable = epoch;
        }
        promised = Math.max(promised, epoch);
        if (mode == Mode.OVERLAP) {
            background.execute(() -> stage(epoch));
        }
    }

    private synchronized void stage(long epoch) {
        try {
            staged = -1;
            files.stage(CURRENT, epoch);
            staged = epoch;
        } catch (IOException e) {
            LOG.warn("Could not stage epoch {}", epoch, e);
        }
    }

    /**
     * Returns when this server cannot forget that it entered an epoch. The caller's history is on disk by now.
     *
     * @throws IOException where it could not be written; the epoch must not be acknowledged then
     */
    synchronized void enter(long epoch) throws IOException {
        if (mode == Mode.MEMORY) {
            background.execute(() -> unforced(CURRENT, epoch));
        } else if (staged == epoch) {
            staged = -1;
            files.publish(CURRENT);
        } else {
            files.force(CURRENT, epoch);
        }
    }

    /**
     * The server serves. What was reserved and never promised is taken back: a server that restarts would otherwise refuse the
     * leader it just followed, which has the older epoch.
     */
    void settle() {
        background.execute(() -> {
            synchronized (this) {
                if (durable <= promised) {
                    return;
                }
                long reserved = durable;
                // Also where it fails: the file may have been replaced, and not forced.
                durable = promised;
                try {
                    files.force(ACCEPTED, promised);
                } catch (IOException e) {
                    LOG.warn("Could not take back the reservation of epoch {}", reserved, e);
                }
            }
        });
    }

    private synchronized void unforced(String name, long epoch) {
        try {
            files.write(name, epoch);
        } catch (IOException e) {
            LOG.warn("Could not write {}", name, e);
        }
    }
}
