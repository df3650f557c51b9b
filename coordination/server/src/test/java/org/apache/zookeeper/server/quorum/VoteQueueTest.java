package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.FastLeaderElection.Notification;
import org.apache.zookeeper.server.quorum.FastLeaderElection.ToSend;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.junit.jupiter.api.Test;

/** The queue of server 3 of 5, which proposes itself in round 7; stock's election is played by the test. */
class VoteQueueTest {

    private final FastLeaderElection election;
    private final VoteQueue queue;
    private final RtQuorumPeer peer;
    private boolean served = true;

    VoteQueueTest() throws Exception {
        Properties p = new Properties();
        p.setProperty("giusto.wait", "50ms");
        peer = new RtQuorumPeer(Settings.of(p)) {
            @Override
            boolean served() {
                return served;
            }
        };
        peer.setMyid(3);
        Map<Long, QuorumServer> servers = new HashMap<>();
        for (long sid = 1; sid <= 5; sid++) {
            servers.put(sid, new QuorumServer(sid, new InetSocketAddress("127.0.0.1", (int) sid), new InetSocketAddress("127.0.0.1",
                (int) sid + 10)));
        }
        peer.setQuorumVerifier(new QuorumMaj(servers), false);
        election = new FastLeaderElection(peer, null);
        queue = new VoteQueue(peer, election, true);
        election.recvqueue = queue;
        election.logicalclock.set(7);
        election.updateProposal(3, 100, 1);
    }

    private static Notification vote(long sid, ServerState state, long leader, long zxid, long round) {
        Notification n = new Notification();
        n.sid = sid;
        n.state = state;
        n.leader = leader;
        n.zxid = zxid;
        n.electionEpoch = round;
        n.peerEpoch = 1;
        return n;
    }

    private static Notification agrees(long sid) {
        return vote(sid, ServerState.LOOKING, 3, 100, 7);
    }

    private Notification finalizePoll() throws InterruptedException {
        return queue.poll(FastLeaderElection.finalizeWait, TimeUnit.MILLISECONDS);
    }

    @Test
    void theWaitEndsAlthoughMessagesKeepComing() throws Exception {
        queue.poll(1, TimeUnit.MILLISECONDS);
        Thread chatter = new Thread(() -> {
            while (!Thread.currentThread().isInterrupted()) {
                queue.offer(agrees(1));
                java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
            }
        });
        chatter.setDaemon(true);
        queue.offer(agrees(1));
        chatter.start();
        // Stock's loop: it would wait for 200 ms of silence, which never comes.
        int messages = 0;
        while (finalizePoll() != null && messages < 2_000) {
            messages++;
        }
        chatter.interrupt();
        System.out.printf("votes: the wait ended after %d messages%n", messages);
        assertTrue(messages > 0 && messages < 2_000);
    }

    @Test
    void aNewVoteOfOursStartsTheWaitAnew() throws Exception {
        queue.poll(1, TimeUnit.MILLISECONDS);
        long first = System.nanoTime();
        assertNull(finalizePoll());
        election.updateProposal(5, 100, 1);
        long second = System.nanoTime();
        assertNull(finalizePoll());
        // At least w, and the first less than two: lower bounds hold on any machine.
        assertTrue(System.nanoTime() - second >= peer.waitNs(), "it did not wait after our vote changed");
        assertTrue(second - first > 0);
    }

    @Test
    void itDoesNotWaitWhenAllButTheLostLeaderAgree() throws Exception {
        queue.poll(1, TimeUnit.MILLISECONDS);
        peer.setCurrentVote(new Vote(5, 100, 6, 1));
        peer.leaderLost();
        long start = System.nanoTime();
        for (int i = 0; i < 200; i++) {
            election.logicalclock.incrementAndGet();
            for (long sid : new long[] {1, 2, 4}) {
                queue.offer(vote(sid, ServerState.LOOKING, 3, 100, election.logicalclock.get()));
                assertNotNull(finalizePoll());
            }
            assertNull(finalizePoll());
        }
        assertTrue(System.nanoTime() - start < 200 * peer.waitNs(), "200 elections took as long as 200 waits");
    }

    @Test
    void itWaitsWhileOneDisagreesOrIsSilentOrVotedInAnotherRound() throws Exception {
        peer.setCurrentVote(new Vote(5, 100, 6, 1));
        peer.leaderLost();
        Notification[] last = {vote(4, ServerState.LOOKING, 4, 90, 7), vote(4, ServerState.LOOKING, 3, 100, 6),
            vote(4, ServerState.FOLLOWING, 3, 100, 7), null};
        for (Notification n : last) {
            election.logicalclock.set(6);
            queue.poll(1, TimeUnit.MILLISECONDS);
            election.logicalclock.set(7);
            long start = System.nanoTime();
            queue.offer(agrees(1));
            queue.offer(agrees(2));
            if (n != null) {
                queue.offer(n);
            }
            while (finalizePoll() != null) {
                continue;
            }
            assertTrue(System.nanoTime() - start >= peer.waitNs(), "it did not wait: " + (n == null ? "silent" : n.state + " " + n.leader));
        }
    }

    @Test
    void onlyTheProposedLeadersWordEndsIt() throws Exception {
        queue.poll(1, TimeUnit.MILLISECONDS);
        election.updateProposal(5, 100, 1);
        queue.offer(vote(4, ServerState.LEADING, 4, 100, 7));
        assertNotNull(finalizePoll(), "another server's");
        queue.offer(vote(5, ServerState.LEADING, 5, 100, 6));
        assertNotNull(finalizePoll(), "of another round");
        queue.offer(vote(4, ServerState.FOLLOWING, 5, 100, 7));
        assertNotNull(finalizePoll(), "a follower's");
        queue.offer(vote(5, ServerState.LEADING, 5, 100, 7));
        queue.offer(agrees(1));
        assertNull(finalizePoll());
        assertEquals(1, queue.size(), "it is not the wait that ended it");
    }

    @Test
    void whoCannotHaveOurVoteIsToldItOnce() {
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 7));
        ToSend told = election.sendqueue.poll();
        assertEquals(1, told.sid);
        assertEquals(3, told.leader);
        assertEquals(7, told.electionEpoch);
        assertEquals(ServerState.LOOKING, told.state);
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 7));
        assertTrue(election.sendqueue.isEmpty(), "told twice");
        election.updateProposal(4, 100, 1);
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 7));
        assertEquals(4, election.sendqueue.poll().leader);
        election.logicalclock.set(8);
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 8));
        assertEquals(8, election.sendqueue.poll().electionEpoch);
    }

    @Test
    void betterAndEqualVotesAndOtherRoundsAndOurOwnAreNotAnswered() {
        queue.offer(vote(1, ServerState.LOOKING, 3, 100, 7));
        queue.offer(vote(4, ServerState.LOOKING, 4, 100, 7));
        queue.offer(vote(1, ServerState.LOOKING, 1, 101, 7));
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 6));
        queue.offer(vote(1, ServerState.LOOKING, 1, 100, 8));
        queue.offer(vote(3, ServerState.LOOKING, 1, 100, 7));
        queue.offer(vote(1, ServerState.FOLLOWING, 1, 100, 7));
        assertTrue(election.sendqueue.isEmpty());
        assertFalse(queue.isEmpty(), "they are read all the same");
    }

    @Test
    void theVoteOfAnElectionThatIsOverIsNotTold() {
        WordQueue words = new WordQueue(election, sid -> sid == 7);
        for (ServerState state : ServerState.values()) {
            for (long round = 5; round <= 8; round++) {
                boolean told = state == ServerState.LOOKING || round >= 7;
                words.clear();
                assertTrue(words.offer(new ToSend(ToSend.mType.notification, 3, 100, round, state, 1, 1, new byte[0])));
                assertEquals(told ? 1 : 0, words.size(), state + " in round " + round);
            }
            // A leader that a reconfiguration named has no round.
            words.clear();
            assertTrue(words.offer(new ToSend(ToSend.mType.notification, 3, 100, -1, state, 1, 1, new byte[0])));
            assertEquals(1, words.size(), state + " without a round");
            words.clear();
            assertTrue(words.offer(new ToSend(ToSend.mType.notification, 3, 100, 9, state, 7, 1, new byte[0])));
            assertEquals(state == ServerState.LOOKING ? 0 : 1, words.size(), state + " to whom no vote is to be told");
        }
    }

    @Test
    void aServerThatNeverServedWaitsAsStockDoes() throws InterruptedException {
        served = false;
        for (long sid : new long[] {1, 2, 4, 5}) {
            queue.offer(agrees(sid));
        }
        while (finalizePoll() != null) {
            // The votes; then no voter is left.
        }
        assertEquals(Settings.STOCK_WAIT_NS, peer.waitNs());
        long start = System.nanoTime();
        election.logicalclock.incrementAndGet();
        finalizePoll();
        assertTrue(System.nanoTime() - start >= Settings.STOCK_WAIT_NS, "it did not wait for servers that start later");
    }
}
