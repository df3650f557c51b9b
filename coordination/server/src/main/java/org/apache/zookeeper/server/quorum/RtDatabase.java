package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.SyncRequestProcessor;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A server's tree and log. When the log cannot be written or forced the process ends, as a stock server without an ensemble does, and
 * starts from what is on its disk. In an ensemble stock looks for another leader with the tree in its memory, which may hold what its
 * log does not, and votes as if the log had it; and with the log still open, of which later forced writes may leave out what failed, or
 * the whole file. Any thread may find out: a follower writes what it missed in its main thread, before it acknowledges the new leader.
 */
final class RtDatabase extends ZKDatabase {

    private static final Logger LOG = LoggerFactory.getLogger(RtDatabase.class);

    private final QuorumPeer peer;

    RtDatabase(FileTxnSnapLog log, QuorumPeer peer) {
        super(log);
        this.peer = peer;
    }

    @Override
    public boolean append(Request request) throws IOException {
        try {
            return super.append(request);
        } catch (IOException e) {
            throw failed(e);
        }
    }

    @Override
    public void commit() throws IOException {
        try {
            super.commit();
        } catch (IOException e) {
            throw failed(e);
        }
    }

    @Override
    public void rollLog() throws IOException {
        try {
            super.rollLog();
        } catch (IOException e) {
            throw failed(e);
        }
    }

    /** A server that is being shut down has closed its log. */
    private IOException failed(IOException e) {
        if (peer.isRunning()) {
            LOG.error("The log cannot be written; this server ends", e);
            end();
        }
        return e;
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
