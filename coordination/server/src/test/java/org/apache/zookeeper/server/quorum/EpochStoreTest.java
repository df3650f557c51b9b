package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.io.IOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;

/**
 * The laws of docs/coordination.md, "Epochs": when promise(e) has returned, the file of the promise holds at least e, for ever;
 * when enter(e) has returned, currentEpoch holds e, and it never held e before enter(e) was called (one that failed may have happened). Checked after every step of
 * random schedules, in which background work runs at any later time, in order, and writes fail.
 */
class EpochStoreTest {

    /** A disk: what a power loss leaves. A write that fails happened, or not. */
    private static final class Disk implements EpochStore.Files {
        final Map<String, Long> forced = new HashMap<>();
        final Map<String, Long> staged = new HashMap<>();
        final List<String> writes = new ArrayList<>();
        boolean fails;
        /** Where it fails, it does so when all is done: the directory cannot be forced. */
        boolean late;

        private void write(String what, String name, long value, Runnable does) throws IOException {
            if (!fails || late) {
                does.run();
            }
            if (fails) {
                throw new IOException("disk full");
            }
            writes.add(what + " " + name + " " + value);
        }

        @Override
        public void force(String name, long value) throws IOException {
            write("force", name, value, () -> forced.put(name, value));
        }

        @Override
        public void stage(String name, long value) throws IOException {
            write("stage", name, value, () -> staged.put(name, value));
        }

        @Override
        public void publish(String name) throws IOException {
            long value = staged.get(name);
            write("publish", name, value, () -> forced.put(name, staged.remove(name)));
        }

        @Override
        public void write(String name, long value) throws IOException {
            write("write", name, value, () -> { });
        }

        long accepted() {
            return forced.getOrDefault("acceptedEpoch", -1L);
        }

        long current() {
            return forced.getOrDefault("currentEpoch", -1L);
        }
    }

    private static void drain(Deque<Runnable> work) {
        while (!work.isEmpty()) {
            work.poll().run();
        }
    }

    private static EpochStore reserved(Disk disk, Deque<Runnable> work) {
        EpochStore store = new EpochStore(EpochStore.Mode.RESERVE, disk, work::add);
        store.reserve(4);
        drain(work);
        return store;
    }

    @Test
    void aReservedPromiseWritesNothing() throws IOException {
        Disk disk = new Disk();
        Deque<Runnable> work = new ArrayDeque<>();
        EpochStore store = reserved(disk, work);
        assertEquals(List.of("force acceptedEpoch 5"), disk.writes);
        store.promise(5);
        drain(work);
        assertEquals(1, disk.writes.size());
        store.promise(6);
        assertEquals(6, disk.accepted());
    }

    @Test
    void aReservationThatWasNotPromisedIsTakenBackAndOneThatWasIsNot() throws IOException {
        Disk disk = new Disk();
        Deque<Runnable> work = new ArrayDeque<>();
        EpochStore store = reserved(disk, work);
        store.settle();
        drain(work);
        assertEquals(4, disk.accepted());
        store.reserve(4);
        store.settle();
        store.promise(5);
        drain(work);
        assertEquals(5, disk.accepted(), "taken back although it was promised after settle() was called");
    }

    @Test
    void aReservationThatMayHaveBeenTakenBackIsNoPromise() throws IOException {
        Disk disk = new Disk();
        Deque<Runnable> work = new ArrayDeque<>();
        EpochStore store = reserved(disk, work);
        store.settle();
        disk.fails = true;
        disk.late = true;
        drain(work);
        disk.fails = false;
        assertEquals(4, disk.accepted());
        store.promise(5);
        assertEquals(5, disk.accepted());
    }

    @Test
    void strictForcesEveryEpochAsStockDoes() throws IOException {
        Disk disk = new Disk();
        EpochStore store = new EpochStore(EpochStore.Mode.STRICT, disk, Runnable::run);
        store.reserve(4);
        store.promise(5);
        store.enter(5);
        store.settle();
        assertEquals(List.of("force acceptedEpoch 5", "force currentEpoch 5"), disk.writes);
    }

    @Test
    void overlapForcesBeforehandAndPublishesWhenEntered() throws IOException {
        Disk disk = new Disk();
        EpochStore store = new EpochStore(EpochStore.Mode.OVERLAP, disk, Runnable::run);
        store.reserve(4);
        store.promise(5);
        assertEquals(-1, disk.current());
        store.enter(5);
        assertEquals(List.of("force acceptedEpoch 5", "stage currentEpoch 5", "publish currentEpoch 5"), disk.writes);
    }

    @Test
    void whatWasStagedIsPublishedOnceAndNotAfterAFailureToStageAnother() throws IOException {
        Disk disk = new Disk();
        Deque<Runnable> work = new ArrayDeque<>();
        EpochStore store = new EpochStore(EpochStore.Mode.OVERLAP, disk, work::add);
        store.promise(5);
        drain(work);
        store.enter(5);
        // It lost its leader, and the same one takes it back.
        store.enter(5);
        assertEquals(5, disk.current());
        assertEquals(List.of("force acceptedEpoch 5", "stage currentEpoch 5", "publish currentEpoch 5", "force currentEpoch 5"), disk.writes);
        store.promise(6);
        drain(work);
        store.promise(7);
        disk.fails = true;
        drain(work);
        disk.fails = false;
        // The file may hold anything now.
        disk.writes.clear();
        store.enter(6);
        assertEquals(List.of("force currentEpoch 6"), disk.writes);
    }

    @Test
    void everyScheduleKeepsThePromises() {
        int failures = 0, free = 0, published = 0, lowered = 0;
        for (int seed = 0; seed < 20_000; seed++) {
            Random random = new Random(seed);
            EpochStore.Mode mode = EpochStore.Mode.values()[random.nextInt(3)];
            Disk disk = new Disk();
            Deque<Runnable> work = new ArrayDeque<>();
            EpochStore store = new EpochStore(mode, disk, work::add);
            long promised = 0, entered = -1, tried = -1;
            for (int step = 0; step < 40; step++) {
                disk.fails = random.nextInt(10) == 0;
                disk.late = random.nextBoolean();
                int writes = disk.writes.size();
                long before = disk.accepted();
                try {
                    switch (random.nextInt(6)) {
                    case 0:
                        store.reserve(promised);
                        break;
                    case 1:
                        long e = promised + 1 + random.nextInt(2);
                        store.promise(e);
                        promised = e;
                        free += disk.writes.size() == writes ? 1 : 0;
                        break;
                    case 2:
                        if (entered < promised) {
                            assertTrue(disk.current() < promised || tried == promised, "entered before it was told to");
                            tried = promised;
                            store.enter(promised);
                            entered = promised;
                            published += disk.writes.get(writes).startsWith("publish") ? 1 : 0;
                        }
                        break;
                    case 3:
                        store.settle();
                        break;
                    default:
                        if (!work.isEmpty()) {
                            work.poll().run();
                        }
                    }
                } catch (IOException expected) {
                    failures++;
                }
                lowered += disk.accepted() < before ? 1 : 0;
                long floor = promised == 0 ? -1 : promised;
                assertTrue(disk.accepted() >= floor, mode + " seed " + seed + ": promised " + promised + ", kept " + disk.accepted());
                assertTrue(entered <= disk.current() && disk.current() <= tried, mode + " seed " + seed);
            }
        }
        System.out.printf("epochs: 20000 schedules; %d failed writes, %d promises without a write, %d staged and published, %d taken back%n",
            failures, free, published, lowered);
        assertTrue(failures > 1000 && free > 1000 && published > 1000 && lowered > 1000);
    }

    @Test
    void whatCannotBeWrittenIsNotPromised() {
        Disk disk = new Disk();
        disk.fails = true;
        for (EpochStore.Mode mode : new EpochStore.Mode[] {EpochStore.Mode.STRICT, EpochStore.Mode.RESERVE, EpochStore.Mode.OVERLAP}) {
            EpochStore store = new EpochStore(mode, disk, Runnable::run);
            store.reserve(1);
            assertThrows(IOException.class, () -> store.promise(2));
            assertThrows(IOException.class, () -> store.enter(2));
        }
    }
}
