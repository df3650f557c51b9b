package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.RequestProcessor;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A leader's server that survives requests which cannot be read, and takes its first snapshot when it serves. Stock writes the whole tree before a follower may connect,
 * about 4 ms for every MB. Nothing needs it at that time: all that is in memory was read from, or written to, snapshot and log
 * on this disk, and a snapshot beside running writes is what stock takes every snapCount transactions too.
 */
final class RtLeaderServer extends LeaderZooKeeperServer {

    private static final Logger LOG = LoggerFactory.getLogger(RtLeaderServer.class);
    /** Long enough for clients to be back, short against the life of a leader. */
    private static final long LATER_MS = TimeUnit.SECONDS.toMillis(2);

    private final Member peer;
    private final boolean snapshotLater;
    private boolean loading;
    private boolean owed;

    RtLeaderServer(FileTxnSnapLog log, Member peer, ZKDatabase database, boolean snapshotLater) throws IOException {
        super(log, peer, database);
        this.peer = peer;
        this.snapshotLater = snapshotLater;
    }

    /** Requests of this server's own clients; those of learners come through the leader. */
    @Override
    protected void setupRequestProcessors() {
        super.setupRequestProcessors();
        RequestProcessor first = firstProcessor;
        firstProcessor = new RequestProcessor() {
            @Override
            public void processRequest(Request request) throws RequestProcessorException {
                first.processRequest(Readable.of(request));
            }

            @Override
            public void shutdown() {
                first.shutdown();
            }
        };
    }

    /** Called by the leader's thread before any follower is let in. */
    @Override
    public void loadData() throws IOException, InterruptedException {
        loading = snapshotLater;
        try {
            super.loadData();
        } finally {
            loading = false;
        }
    }

    @Override
    public File takeSnapshot(boolean sync, boolean severe) throws IOException {
        if (loading) {
            owed = true;
            return null;
        }
        peer.namesChanged();
        return super.takeSnapshot(sync, severe);
    }

    @Override
    public synchronized void startup() {
        super.startup();
        if (owed) {
            owed = false;
            Thread thread = new Thread(this::later, "giusto-snapshot");
            thread.setDaemon(true);
            thread.start();
        }
    }

    @Override
    protected void setState(State state) {
        super.setState(state);
        if (state == State.ERROR) {
            RtDatabase.threadFailed();
        }
    }

    private void later() {
        try {
            Thread.sleep(LATER_MS);
            if (isRunning()) {
                takeSnapshot();
            }
        } catch (IOException | InterruptedException e) {
            LOG.warn("The snapshot of a new leader was not taken; the next one will be", e);
        }
    }
}
