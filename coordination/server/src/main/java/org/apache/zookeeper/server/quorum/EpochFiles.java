package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.function.LongConsumer;
import org.apache.zookeeper.common.AtomicFileOutputStream;

/**
 * The epoch files of a data directory, as stock ZooKeeper writes them: a decimal number, forced to a temporary file that is
 * then renamed. Unlike stock it then forces the directory, too: a power loss may undo a rename that nothing was forced after.
 */
final class EpochFiles implements EpochStore.Files {

    /** Not ".tmp": stock takes a left-over currentEpoch.tmp for an epoch that was entered. */
    static final String STAGED = ".giusto-staged";

    private final Path directory;
    private final LongConsumer forcedNs;

    /**
     * @param directory the snapshot directory
     * @param forcedNs told how long each forced write took, in ns
     */
    EpochFiles(Path directory, LongConsumer forcedNs) {
        this.directory = directory;
        this.forcedNs = forcedNs;
    }

    @Override
    public void force(String name, long value) throws IOException {
        long start = System.nanoTime();
        AtomicFileOutputStream out = new AtomicFileOutputStream(directory.resolve(name).toFile());
        try {
            out.write(Long.toString(value).getBytes(UTF_8));
        } catch (IOException e) {
            out.abort();
            throw e;
        }
        out.close();
        forceNames();
        forcedNs.accept(System.nanoTime() - start);
    }

    @Override
    public void stage(String name, long value) throws IOException {
        long start = System.nanoTime();
        try (FileOutputStream out = new FileOutputStream(directory.resolve(name + STAGED).toFile())) {
            out.write(Long.toString(value).getBytes(UTF_8));
            out.getFD().sync();
        }
        forcedNs.accept(System.nanoTime() - start);
    }

    @Override
    public void publish(String name) throws IOException {
        Files.move(directory.resolve(name + STAGED), directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        forceNames();
    }

    private void forceNames() throws IOException {
        try (FileChannel channel = FileChannel.open(directory, StandardOpenOption.READ)) {
            channel.force(true);
        }
    }

    @Override
    public void write(String name, long value) throws IOException {
        Path temporary = directory.resolve(name + STAGED);
        Files.write(temporary, Long.toString(value).getBytes(UTF_8));
        Files.move(temporary, directory.resolve(name), StandardCopyOption.ATOMIC_MOVE);
    }
}
