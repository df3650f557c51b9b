package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Server 1 of 3, which served in epoch 4: when it reserves epoch 5, and when the old leader can still take it in. */
class ReserveTest {

    @TempDir
    Path dir;
    private RtQuorumPeer peer;
    private Path accepted;

    @BeforeEach
    void serves() throws Exception {
        FileTxnSnapLog log = new FileTxnSnapLog(dir.toFile(), dir.toFile());
        accepted = log.getSnapDir().toPath().resolve(QuorumPeer.ACCEPTED_EPOCH_FILENAME);
        Files.writeString(accepted, "4");
        peer = new RtQuorumPeer(Settings.of(new Properties()));
        peer.setMyid(1);
        peer.setTxnFactory(log);
        Map<Long, QuorumServer> servers = new HashMap<>();
        for (long sid = 1; sid <= 3; sid++) {
            servers.put(sid, new QuorumServer(sid, new InetSocketAddress("127.0.0.1", (int) sid), new InetSocketAddress("127.0.0.1",
                (int) sid + 10)));
        }
        peer.setQuorumVerifier(new QuorumMaj(servers), false);
        peer.setPeerState(ServerState.FOLLOWING);
        peer.setZabState(QuorumPeer.ZabState.BROADCAST);
    }

    private void hears(long sid, ServerState state) {
        hears(sid, state, 3, 7);
    }

    private void hears(long sid, ServerState state, long leader, long round) {
        ByteBuffer word = ByteBuffer.allocate(36);
        word.putInt(state.ordinal()).putLong(leader).putLong(0).putLong(round).putLong(4);
        peer.peek(new QuorumCnxManager.Message(word, sid));
    }

    /** What is on the disk when all is written that was to be. */
    private String promised() throws Exception {
        return within(20);
    }

    /** A disk may take its time. */
    private String within(int looks) throws Exception {
        for (int i = 0; i < looks && Files.readString(accepted).equals("4"); i++) {
            TimeUnit.MILLISECONDS.sleep(10);
        }
        return Files.readString(accepted);
    }

    @Test
    void alone() throws Exception {
        peer.leaderLost();
        peer.setPeerState(ServerState.LOOKING);
        hears(1, ServerState.LOOKING);
        assertEquals("4", promised());
    }

    @Test
    void strangersAreNoQuorum() throws Exception {
        peer.setPeerState(ServerState.LOOKING);
        hears(8, ServerState.LOOKING);
        hears(9, ServerState.LOOKING);
        assertEquals("4", promised());
    }

    /** One that names the last of all rounds would leave nothing to be measured any more. */
    @Test
    void strangersHaveNoRounds() throws Exception {
        hears(8, ServerState.LOOKING, 3, Long.MAX_VALUE);
        hears(2, ServerState.LOOKING);
        long before = TimeUnit.MILLISECONDS.toNanos(100);
        peer.waiting().elected(7, System.nanoTime() - before);
        assertTrue(peer.waiting().jitterNs() >= before - Settings.STOCK_WAIT_NS / 4, "" + peer.waiting().jitterNs());
    }

    @Test
    void anotherLooksLater() throws Exception {
        peer.leaderLost();
        peer.setPeerState(ServerState.LOOKING);
        hears(2, ServerState.LOOKING);
        assertEquals("5", within(1000));
    }

    @Test
    void anotherLooksBefore() throws Exception {
        hears(2, ServerState.LOOKING);
        assertEquals("4", promised());
        hears(2, ServerState.LOOKING);
        peer.leaderLost();
        assertEquals("5", within(1000));
    }

    @Test
    void anotherLookedLongAgo() throws Exception {
        hears(2, ServerState.LOOKING);
        TimeUnit.NANOSECONDS.sleep(Seekers.FRESH_NS + 1);
        peer.setPeerState(ServerState.LOOKING);
        assertEquals("4", promised());
    }

    @Test
    void anotherFollowsAgain() throws Exception {
        hears(2, ServerState.LOOKING);
        hears(2, ServerState.FOLLOWING);
        peer.setPeerState(ServerState.LOOKING);
        assertEquals("4", promised());
    }

    @Test
    void electedIsNotLost() throws Exception {
        peer.setPeerState(ServerState.LOOKING);
        peer.setPeerState(ServerState.FOLLOWING);
        hears(2, ServerState.LOOKING);
        assertEquals("4", promised());
    }
}
