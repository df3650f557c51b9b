package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.SyncRequestProcessor;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnLog;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.persistence.TxnLog;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A server's tree and log. When the log cannot be written or forced the process ends, as a stock server without an ensemble does, and
 * starts from what is on its disk. In an ensemble stock looks for another leader with the tree in its memory, which may hold what its
 * log does not, and votes as if the log had it; and with the log still open, of which later forced writes may leave out what failed, or
 * the whole file. Any thread may find out: a follower writes what it missed in its main thread, before it acknowledges the new leader.
 *
 * <p>Before that the log loses what was never forced. A kernel that could not write a page calls it clean and goes on showing it: the
 * server that starts next would read, and build upon, what no disk has (<a href="https://lwn.net/Articles/752063/">fsyncgate</a>).
 */
final class RtDatabase extends ZKDatabase {

    private static final Logger LOG = LoggerFactory.getLogger(RtDatabase.class);

    private final Member peer;
    private long unforced; // the first transaction that was written since the log was forced; 0: none
    private boolean failed;

    RtDatabase(FileTxnSnapLog log, Member peer) {
        super(log);
        this.peer = peer;
    }

    @Override
    public synchronized boolean append(Request request) throws IOException {
        if (unforced == 0 && request.getHdr() != null) {
            unforced = request.getHdr().getZxid();
        }
        try {
            open();
            return super.append(request);
        } catch (IOException e) {
            throw failed(e);
        }
    }

    @Override
    public synchronized void commit() throws IOException {
        try {
            open();
            super.commit();
        } catch (IOException e) {
            throw failed(e);
        }
        unforced = 0;
    }

    @Override
    public synchronized void rollLog() throws IOException {
        try {
            open();
            super.rollLog();
        } catch (IOException e) {
            throw failed(e);
        }
    }

    @Override
    public boolean truncateLog(long zxid) throws IOException {
        peer.namesChanged();
        return super.truncateLog(zxid);
    }

    /** Refuses writes after a failure: nothing may follow what was taken back. */
    private void open() throws IOException {
        if (failed) {
            throw new IOException("the log failed before, and this server ends");
        }
    }

    /** A server that is being shut down has closed its log. */
    private IOException failed(IOException e) {
        if (peer.isRunning() && !failed) {
            failed = true;
            LOG.error("The log cannot be written; this server ends", e);
            try {
                takeBack();
            } catch (IOException | RuntimeException also) {
                LOG.error("What was not forced stays in the log", also);
            }
            end();
        }
        return e;
    }

    private void takeBack() throws IOException {
        if (unforced == 0) {
            return;
        }
        try (FileTxnLog log = new FileTxnLog(snapLog.getDataLogDir())) {
            long last = 0;
            try (TxnLog.TxnIterator records = log.read(0)) {
                for (boolean more = records.getHeader() != null; more && records.getHeader().getZxid() < unforced; more = records.next()) {
                    last = records.getHeader().getZxid();
                }
            }
            if (last != 0) {
                log.truncate(last);
            } else {
                for (File file : FileTxnLog.getLogFiles(snapLog.getDataLogDir().listFiles(), 0)) {
                    Files.delete(file.toPath());
                }
            }
            LOG.error("The log ends with 0x{} now; it was not forced from 0x{} on", Long.toHexString(last), Long.toHexString(unforced));
        }
    }

    /** Called by a thread that a server cannot do without, and that has failed: what the one that writes the log held is not in it. */
    static void threadFailed() {
        if (Thread.currentThread() instanceof SyncRequestProcessor) {
            LOG.error("The log cannot be written, see the error above; this server ends");
            end();
        }
    }

    private static void end() {
        ServiceUtils.requestSystemExit(ExitCode.UNEXPECTED_ERROR.getValue());
    }
}
