package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.RequestRecord;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.QuorumPeer.LearnerType;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A leader, alone in its configuration, and learners that do not read what they are sent. */
class RtLeaderTest {

    @TempDir
    Path dir;
    private final List<Request> taken = new ArrayList<>();
    private RtQuorumPeer peer;
    private RtLeader leader;
    private boolean diskIsFull;

    @BeforeEach
    void leads() throws Exception {
        FileTxnSnapLog log = new FileTxnSnapLog(dir.toFile(), dir.toFile());
        peer = new RtQuorumPeer(Settings.of(new Properties())) {
            @Override
            void writeLongToFile(String name, long value) throws IOException {
                if (diskIsFull) {
                    throw new IOException("No space left on device");
                }
            }
        };
        peer.setTickTime(2000);
        peer.setInitLimit(10);
        peer.setMyid(1);
        peer.setTxnFactory(log);
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        peer.setQuorumVerifier(new QuorumMaj(Map.of(1L, new QuorumServer(1, any, any))), false);
        leader = new RtLeader(peer, new LeaderZooKeeperServer(log, peer, new ZKDatabase(log)) {
            @Override
            public void submitLearnerRequest(Request request) {
                taken.add(request);
            }
        }, 0);
    }

    @AfterEach
    void ends() {
        leader.closeSockets();
    }

    private final class Learner extends LearnerHandler {

        private final LearnerType type;

        Learner(LearnerType type) throws IOException {
            super(new Socket(), null, leader);
            this.type = type;
            leader.addLearnerHandler(this);
        }

        @Override
        public LearnerType getLearnerType() {
            return type;
        }

        @Override
        public String getRemoteAddress() {
            return "nowhere";
        }

        Learner inStep() {
            leader.startForwarding(this, 0);
            return this;
        }

        void unread(int packets) {
            for (int i = 0; i < packets; i++) {
                queuedPackets.add(new QuorumPacket(Leader.PING, 0, null, null));
            }
        }

        boolean isSentAway() {
            return sock.isClosed();
        }

        void asks() {
            Request request = new Request(null, 7, 5, OpCode.sync, RequestRecord.fromBytes(new byte[0]), null);
            request.setOwner(this);
            leader.submitLearnerRequest(request);
        }
    }

    /** What it asked for is lost: it would wait for the answer for ever. */
    @Test
    void whoDoesNotReadAndAsksIsSentAway() throws IOException {
        Learner follower = new Learner(LearnerType.PARTICIPANT).inStep();
        follower.unread(RtLeader.UNREAD);
        follower.asks();
        assertEquals(1, taken.size());
        follower.unread(1);
        follower.asks();
        assertEquals(1, taken.size());
        assertTrue(follower.isSentAway());
    }

    /** It asks nothing, and a ping now and then keeps its connection. */
    @Test
    void anObserverThatDoesNotReadIsSentAway() throws IOException {
        Learner deaf = new Learner(LearnerType.OBSERVER).inStep();
        Learner other = new Learner(LearnerType.OBSERVER).inStep();
        deaf.unread(RtLeader.UNREAD / 2);
        leader.sendObserverPacket(new QuorumPacket(Leader.INFORM, 1, null, null));
        assertFalse(deaf.isSentAway());
        deaf.unread(RtLeader.UNREAD / 2);
        leader.sendObserverPacket(new QuorumPacket(Leader.INFORM, 2, null, null));
        assertTrue(deaf.isSentAway());
        assertFalse(other.isSentAway());
    }

    @Test
    void noObserverKeepsMoreThanAQuarterOfTheHeap() throws IOException {
        Learner deaf = new Learner(LearnerType.OBSERVER).inStep();
        Learner other = new Learner(LearnerType.OBSERVER).inStep();
        // The same megabyte each time.
        byte[] data = new byte[1 << 20];
        long packets = Runtime.getRuntime().maxMemory() / 4 / data.length;
        for (int i = 0; i < packets + 20; i++) {
            assertTrue(i >= packets || !deaf.isSentAway(), "after " + i + " of " + packets);
            leader.sendObserverPacket(new QuorumPacket(Leader.INFORM, i, data, null));
            other.queuedPackets.clear();
        }
        assertTrue(deaf.isSentAway());
        assertFalse(other.isSentAway());
    }

    @Test
    void learnersInStepDoNotArrive() throws IOException {
        List<Learner> learners = new ArrayList<>();
        for (int i = 0; i < 2 * Door.ROOM; i++) {
            learners.add(new Learner(i % 2 == 0 ? LearnerType.OBSERVER : LearnerType.PARTICIPANT).inStep());
        }
        Learner silent = new Learner(LearnerType.OBSERVER);
        // One server is in the configuration.
        for (int i = 0; i < Door.ROOM + 1; i++) {
            assertFalse(silent.isSentAway(), "one of " + i);
            new Learner(LearnerType.PARTICIPANT);
        }
        assertTrue(silent.isSentAway());
        for (Learner learner : learners) {
            assertFalse(learner.isSentAway());
        }
    }

    /** Stock proposes it all the same, enters it, and does not start any more: its current epoch is above the one it promised. */
    @Test
    @Timeout(20)
    void anEpochThatCouldNotBeWrittenIsNotProposed() throws Exception {
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", 0);
        QuorumServer one = new QuorumServer(1, any, any);
        QuorumMaj two = new QuorumMaj(Map.of(1L, one, 2L, new QuorumServer(2, any, any)));
        two.setVersion(1);
        peer.setQuorumVerifier(two, false);
        peer.setAcceptedEpoch(4);
        diskIsFull = true;
        CompletableFuture<Throwable> own = new CompletableFuture<>();
        Thread lead = new Thread(() -> own.complete(thrown(() -> leader.getEpochToPropose(1, 4))));
        lead.start();
        while (lead.getState() != Thread.State.TIMED_WAITING) {
            Thread.sleep(1);
        }
        assertInstanceOf(IOException.class, thrown(() -> leader.getEpochToPropose(2, 4)));
        assertNotNull(own.get(5, TimeUnit.SECONDS), "it leads");
        assertInstanceOf(IOException.class, thrown(() -> leader.getEpochToPropose(2, 4)));
        assertEquals(4, peer.getAcceptedEpoch());
    }

    private static Throwable thrown(Callable<?> call) {
        try {
            call.call();
            return null;
        } catch (Exception e) {
            return e;
        }
    }
}
