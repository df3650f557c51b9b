package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;

/** What a rehearsal leaves behind: nothing. */
class RehearsalTest {

    private static final Path SCRATCH = Path.of(System.getProperty("java.io.tmpdir"));
    /** Generous: a busy machine is no failure. */
    private static final long PATIENCE_NS = TimeUnit.SECONDS.toNanos(60);

    private static Set<String> threads() {
        return Thread.getAllStackTraces().keySet().stream().map(Thread::getName).collect(Collectors.toCollection(TreeSet::new));
    }

    private static Set<ObjectName> beans() throws Exception {
        return ManagementFactory.getPlatformMBeanServer().queryNames(new ObjectName("org.apache.ZooKeeperService:*"), null);
    }

    private static Set<Path> scratch() throws Exception {
        try (Stream<Path> all = Files.list(SCRATCH)) {
            return all.filter(p -> p.getFileName().toString().startsWith("giusto-rehearsal-")).collect(Collectors.toSet());
        }
    }

    private static boolean comes(BooleanSupplier condition) throws InterruptedException {
        for (int i = 0; i < 300 && !condition.getAsBoolean(); i++) {
            Thread.sleep(100);
        }
        return condition.getAsBoolean();
    }

    @Test
    void recoveriesArePlayedAndNothingIsLeft() throws Exception {
        System.setProperty("zookeeper.admin.enableServer", "true");
        Set<Path> before = scratch();
        int played = Rehearsal.play(Settings.of(new Properties()), SCRATCH, PATIENCE_NS);
        assertTrue(played > 0, "none was played");
        Set<Path> left = new HashSet<>(scratch());
        left.removeAll(before);
        assertTrue(left.isEmpty(), "left behind: " + left);
        assertEquals("true", System.getProperty("zookeeper.admin.enableServer"));
        assertTrue(beans().isEmpty(), "beans: " + beans());
        // Stock's threads look every three seconds whether they are to end.
        assertTrue(comes(() -> threads().stream().noneMatch(
            name -> name.matches("(QuorumPeer|Worker|NIO|SyncThread|CommitProc|Learner|Leader|giusto-(rehearsal|epochs|snapshot)).*"))),
            "threads: " + threads());
        assertFalse(Thread.currentThread().isInterrupted());
    }

    @Test
    void whereItCannotBePlayedTheServerStartsWithout() throws Exception {
        Set<String> before = threads();
        assertEquals(0, Rehearsal.play(Settings.of(new Properties()), Path.of("/nonexistent"), PATIENCE_NS));
        assertTrue(comes(() -> before.containsAll(threads())));
    }
}
