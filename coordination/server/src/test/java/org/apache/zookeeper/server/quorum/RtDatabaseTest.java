package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.File;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
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

        private void write() throws IOException {
            if (broken) {
                throw new IOException("No space left on device");
            }
        }

        @Override
        public boolean append(Request request) throws IOException {
            write();
            return true;
        }

        @Override
        public void commit() throws IOException {
            write();
        }

        @Override
        public void rollLog() throws IOException {
            write();
        }
    }

    private void writes() throws IOException {
        peer.getZkDb().append(null);
        peer.getZkDb().commit();
        peer.getZkDb().rollLog();
    }

    private void fails() {
        broken = true;
        assertThrows(IOException.class, () -> peer.getZkDb().append(null));
        assertThrows(IOException.class, peer.getZkDb()::commit);
        assertThrows(IOException.class, peer.getZkDb()::rollLog);
    }

    @Test
    void aLogThatCannotBeWrittenEndsTheServer() throws IOException {
        writes();
        assertEquals(List.of(), ends);
        fails();
        int code = ExitCode.UNEXPECTED_ERROR.getValue();
        assertEquals(List.of(code, code, code), ends);
    }

    /** Its log is closed by then; a rehearsal's server must not end the one that is to start. */
    @Test
    void oneThatIsShutDownIsLeftAlone() {
        running = false;
        fails();
        assertEquals(List.of(), ends);
    }
}
