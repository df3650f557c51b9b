package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** When a number is written over the one before, and when the file is replaced, which forces the directory. */
class EpochFilesTest {

    private static final String ACCEPTED = QuorumPeer.ACCEPTED_EPOCH_FILENAME;
    private static final String CURRENT = QuorumPeer.CURRENT_EPOCH_FILENAME;

    @TempDir
    Path directory;
    private EpochFiles files;

    @BeforeEach
    void start() {
        files = new EpochFiles(directory, ns -> { });
    }

    private Object inode(String name) throws IOException {
        return Files.getAttribute(directory.resolve(name), "unix:ino");
    }

    private String held(String name) throws IOException {
        return Files.readString(directory.resolve(name));
    }

    /** A link keeps the inode from being used again. */
    private void keep(String name) throws IOException {
        Files.deleteIfExists(directory.resolve("kept"));
        Files.createLink(directory.resolve("kept"), directory.resolve(name));
    }

    private boolean replaced(String name, long value) throws IOException {
        keep(name);
        Object before = inode(name);
        files.force(name, value);
        assertEquals(Long.toString(value), held(name));
        return !before.equals(inode(name));
    }

    @Test
    void aNumberIsWrittenOverOneOfItsLength() throws IOException {
        files.force(ACCEPTED, 7);
        assertEquals(false, replaced(ACCEPTED, 8));
        assertEquals(false, replaced(ACCEPTED, 7));
        assertEquals(true, replaced(ACCEPTED, 10));
        assertEquals(false, replaced(ACCEPTED, 11));
    }

    @Test
    void whatAnotherProcessLeftIsReplacedAtTheStart() throws IOException {
        Files.writeString(directory.resolve(ACCEPTED), "3");
        keep(ACCEPTED);
        Object before = inode(ACCEPTED);
        files.confirm();
        assertNotEquals(before, inode(ACCEPTED));
        assertEquals("3", held(ACCEPTED));
        assertEquals(false, Files.exists(directory.resolve(CURRENT)));
        assertEquals(false, replaced(ACCEPTED, 4));
    }

    /** Stock's way out where a rename failed: it reads the number there when the log is ahead of currentEpoch. */
    @Test
    void whatStockLeftUnderAnotherNameIsThereUntilANumberIsWritten() throws IOException {
        Path left = directory.resolve(CURRENT + ".tmp");
        Files.writeString(directory.resolve(CURRENT), "1");
        Files.writeString(left, "2");
        files.confirm();
        assertEquals("2", Files.readString(left));
        files.force(CURRENT, 2);
        assertEquals("2", held(CURRENT));
        assertEquals(false, Files.exists(left));
    }

    @Test
    void anEpochIsEnteredWithTheDirectoryWhereNamesChanged() throws IOException {
        files.force(ACCEPTED, 1);
        files.force(CURRENT, 1);
        files.namesChanged();
        assertEquals(false, replaced(ACCEPTED, 2));
        assertEquals(true, replaced(CURRENT, 2));
        assertEquals(false, replaced(CURRENT, 3));
    }

    @Test
    void afterAFailureTheFileIsReplaced() throws IOException {
        files.force(ACCEPTED, 1);
        Path file = directory.resolve(ACCEPTED);
        Files.delete(file);
        Files.createDirectory(file);
        assertThrows(IOException.class, () -> files.force(ACCEPTED, 2));
        Files.delete(file);
        Files.writeString(file, "1");
        assertEquals(true, replaced(ACCEPTED, 2));
    }

    /** Whatever happens in between, a file holds what was written last. */
    @Test
    void theLastValueIsHeld() throws IOException {
        Random random = new Random(1);
        Map<String, Long> last = new HashMap<>();
        int over = 0;
        for (int step = 0; step < 3000; step++) {
            String name = random.nextBoolean() ? ACCEPTED : CURRENT;
            long value = random.nextInt(300);
            switch (random.nextInt(8)) {
            case 0:
                files.stage(name, value);
                files.publish(name);
                break;
            case 1:
                files.write(name, value);
                break;
            case 2:
                Files.deleteIfExists(directory.resolve(name));
                files.force(name, value);
                break;
            case 3:
                files = new EpochFiles(directory, ns -> { });
                files.confirm();
                continue;
            case 4:
                files.namesChanged();
                continue;
            default:
                if (Files.exists(directory.resolve(name))) {
                    over += replaced(name, value) ? 0 : 1;
                } else {
                    files.force(name, value);
                }
            }
            last.put(name, value);
            for (Map.Entry<String, Long> one : last.entrySet()) {
                assertEquals(Long.toString(one.getValue()), held(one.getKey()), "step " + step);
            }
        }
        System.out.printf("epochs: %d of 3000 steps written over%n", over);
        assertEquals(true, over > 200);
    }
}
