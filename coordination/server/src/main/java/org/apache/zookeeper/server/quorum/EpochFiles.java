package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongConsumer;
import org.apache.zookeeper.common.AtomicFileOutputStream;

/**
 * The epoch files of a data directory, with stock ZooKeeper's names and contents: a decimal number.
 *
 * <p>Stock forces a temporary file that is then renamed. That has the file system write its journal, and with it whatever any
 * process has written: half a second on a busy disk. So a number is written over the one before, in one sector, which a disk
 * writes as a whole, and nothing but this sector is forced. A file is replaced as in stock, and then the directory forced too
 * (a power loss may undo a rename that nothing was forced after), where
 * <ul>
 * <li>this process has not replaced it before: what it read may be a page that no disk has, after a forced write that
 * failed;</li>
 * <li>the last write failed, or the number gets longer;</li>
 * <li>an epoch is entered after names or lengths of other files changed (a log was cut, a snapshot taken): the forced
 * directory is what makes these certain.</li>
 * </ul>
 */
final class EpochFiles implements EpochStore.Files {

    /**
     * Not ".tmp": stock takes a left-over currentEpoch.tmp for an epoch that was entered, where currentEpoch is behind the log.
     * One that a stock server left stays until this one has written a number itself.
     */
    static final String STAGED = ".giusto-staged";
    private static final String NEW = ".giusto-new";

    private final Path directory;
    private final LongConsumer forcedNs;
    /** How long the files are that this process replaced, and has written without fail since. */
    private final Map<String, Integer> lengths = new HashMap<>();
    private boolean namesChanged;

    /**
     * @param directory the snapshot directory
     * @param forcedNs told how long each forced write took, in ns
     */
    EpochFiles(Path directory, LongConsumer forcedNs) {
        this.directory = directory;
        this.forcedNs = forcedNs;
    }

    /** A log was cut, or a snapshot taken: not certain before the directory is forced. */
    synchronized void namesChanged() {
        namesChanged = true;
    }

    /** Before this process begins: what it reads in the files is on the disk. */
    synchronized void confirm() throws IOException {
        for (String name : List.of(QuorumPeer.ACCEPTED_EPOCH_FILENAME, QuorumPeer.CURRENT_EPOCH_FILENAME)) {
            Path file = directory.resolve(name);
            if (Files.exists(file)) {
                // What makes no sense is stock's to refuse.
                byte[] text = Files.readAllBytes(file);
                replace(name, text);
                lengths.put(name, text.length);
            }
        }
    }

    @Override
    public synchronized void force(String name, long value) throws IOException {
        long start = System.nanoTime();
        byte[] text = Long.toString(value).getBytes(UTF_8);
        Integer length = lengths.remove(name);
        boolean enters = namesChanged && name.equals(QuorumPeer.CURRENT_EPOCH_FILENAME);
        boolean over = length != null && length == text.length && !enters;
        if (!over || !writtenOver(name, text)) {
            replace(name, text);
        }
        Files.deleteIfExists(directory.resolve(name + AtomicFileOutputStream.TMP_EXTENSION));
        lengths.put(name, text.length);
        forcedNs.accept(System.nanoTime() - start);
    }

    /** Whether the file was still there, and as long. */
    private boolean writtenOver(String name, byte[] text) throws IOException {
        try (FileChannel channel = FileChannel.open(directory.resolve(name), StandardOpenOption.WRITE)) {
            if (channel.size() != text.length) {
                return false;
            }
            channel.write(ByteBuffer.wrap(text), 0);
            channel.force(false);
            return true;
        } catch (NoSuchFileException e) {
            return false;
        }
    }

    private void replace(String name, byte[] text) throws IOException {
        write(name + NEW, text);
        Files.move(directory.resolve(name + NEW), directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        forceNames();
    }

    @Override
    public synchronized void stage(String name, long value) throws IOException {
        long start = System.nanoTime();
        write(name + STAGED, Long.toString(value).getBytes(UTF_8));
        forcedNs.accept(System.nanoTime() - start);
    }

    @Override
    public synchronized void publish(String name) throws IOException {
        lengths.remove(name);
        Files.move(directory.resolve(name + STAGED), directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        forceNames();
    }

    /** What the file holds is certain then, its name is not. */
    private void write(String name, byte[] text) throws IOException {
        try (FileOutputStream out = new FileOutputStream(directory.resolve(name).toFile())) {
            out.write(text);
            out.getFD().sync();
        }
    }

    private void forceNames() throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
        namesChanged = false;
    }

    @Override
    public synchronized void write(String name, long value) throws IOException {
        lengths.remove(name);
        Path temporary = directory.resolve(name + STAGED);
        Files.write(temporary, Long.toString(value).getBytes(UTF_8));
        Files.move(temporary, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }
}
