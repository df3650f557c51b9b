package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.persistence.TxnLog;
import org.apache.zookeeper.txn.SetDataTxn;
import org.apache.zookeeper.txn.TxnHeader;
import org.apache.zookeeper.util.ServiceUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A follower's main thread writes what it missed; here it is the test's. */
class RtDatabaseTest {

    @TempDir
    Path dir;
    private final List<Integer> ends = new ArrayList<>();
    private RtQuorumPeer peer;
    private boolean broken;
    private boolean running = true;

    @BeforeEach
    void peerWithALog() throws Exception {
        ServiceUtils.setSystemExitProcedure(ends::add);
        peer = new RtQuorumPeer(Settings.of(new Properties())) {
            @Override
            public boolean isRunning() {
                return running;
            }
        };
        peer.setTxnFactory(new Log(dir.toFile()));
        peer.setZKDatabase(new ZKDatabase(peer.getTxnFactory()));
    }

    @AfterEach
    void exitAsAlways() {
        ServiceUtils.setSystemExitProcedure(ServiceUtils.SYSTEM_EXIT);
    }

    private final class Log extends FileTxnSnapLog {

        Log(File dir) throws IOException {
            super(dir, dir);
        }

        /** Written it is, and can be read; that it is on a disk is another matter. */
        private void check() throws IOException {
            if (broken) {
                throw new IOException("Input/output error");
            }
        }

        @Override
        public boolean append(Request request) throws IOException {
            boolean written = super.append(request);
            check();
            return written;
        }

        @Override
        public void commit() throws IOException {
            super.commit();
            check();
        }

        @Override
        public void rollLog() throws IOException {
            super.rollLog();
            check();
        }
    }

    private void write(long zxid) throws IOException {
        TxnHeader header = new TxnHeader(1, 1, zxid, 1, OpCode.setData);
        peer.getZkDb().append(new Request(1, 1, OpCode.setData, header, new SetDataTxn("/a", new byte[300], 1), zxid));
    }

    private void writes(long... zxids) throws IOException {
        for (long zxid : zxids) {
            write(zxid);
        }
        peer.getZkDb().commit();
    }

    private List<Long> log() throws IOException {
        List<Long> found = new ArrayList<>();
        try (FileTxnLog log = new FileTxnLog(peer.getTxnFactory().getDataLogDir()); TxnLog.TxnIterator records = log.read(0)) {
            for (boolean more = records.getHeader() != null; more; more = records.next()) {
                found.add(records.getHeader().getZxid());
            }
        }
        return found;
    }

    private void fails() {
        broken = true;
        assertThrows(IOException.class, () -> write(9));
        assertThrows(IOException.class, peer.getZkDb()::commit);
        assertThrows(IOException.class, peer.getZkDb()::rollLog);
    }

    @Test
    void aLogThatCannotBeWrittenEndsTheServer() throws IOException {
        writes(1);
        peer.getZkDb().rollLog();
        assertEquals(List.of(), ends);
        fails();
        assertEquals(List.of(ExitCode.UNEXPECTED_ERROR.getValue()), ends);
    }

    /** A kernel that could not write a page shows it until the machine restarts. */
    @Test
    void whatWasNotForcedIsTakenBack() throws IOException {
        writes(1, 2);
        writes(3);
        write(4);
        write(5);
        assertEquals(List.of(1L, 2L, 3L), failed());
    }

    @Test
    void afterARollTheOldFileStays() throws IOException {
        writes(1, 2);
        peer.getZkDb().rollLog();
        write(3);
        assertEquals(List.of(1L, 2L), failed());
    }

    @Test
    void nothingWasEverForced() throws IOException {
        write(1);
        assertEquals(List.of(), failed());
        assertEquals(0, FileTxnLog.getLogFiles(peer.getTxnFactory().getDataLogDir().listFiles(), 0).length);
    }

    /** Nothing is written behind what was taken back, also where the disk would do again. */
    @Test
    void aLogThatFailedIsWrittenNoMore() throws IOException {
        writes(1);
        write(2);
        failed();
        broken = false;
        assertThrows(IOException.class, () -> write(3));
        assertThrows(IOException.class, peer.getZkDb()::commit);
        assertEquals(List.of(1L), log());
    }

    private List<Long> failed() throws IOException {
        peer.getTxnFactory().commit(); // the file has what the kernel shows
        broken = true;
        assertThrows(IOException.class, peer.getZkDb()::commit);
        return log();
    }

    /** Its log is closed by then; a rehearsal's server must not end the one that is to start. */
    @Test
    void oneThatIsShutDownIsLeftAlone() {
        running = false;
        fails();
        assertEquals(List.of(), ends);
    }

    /**
     * An epoch is entered with the directory forced where the log was cut before: a power loss may undo the cut, not the epoch
     * alone.
     */
    @Test
    void whoseLogIsCutEntersTheNextEpochWithIt() throws Exception {
        Path epoch = peer.getTxnFactory().getSnapDir().toPath().resolve(QuorumPeer.CURRENT_EPOCH_FILENAME);
        peer.writeLongToFile(QuorumPeer.CURRENT_EPOCH_FILENAME, 1);
        Files.createLink(dir.resolve("kept"), epoch);
        peer.writeLongToFile(QuorumPeer.CURRENT_EPOCH_FILENAME, 2);
        assertEquals("2", Files.readString(dir.resolve("kept")));
        peer.getZkDb().truncateLog(0);
        peer.writeLongToFile(QuorumPeer.CURRENT_EPOCH_FILENAME, 3);
        assertEquals("2", Files.readString(dir.resolve("kept")));
        assertEquals("3", Files.readString(epoch));
    }
}
