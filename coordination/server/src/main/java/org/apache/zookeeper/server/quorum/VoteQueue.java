package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.FastLeaderElection.Notification;
import org.apache.zookeeper.server.quorum.FastLeaderElection.ToSend;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;

/**
 * Fast convergence of the leader election (FCLE, [LiH21, section 5.2.2]), in the place of the queue that stock's
 * {@code lookForLeader} reads votes from. The algorithm and its messages are stock's; this decides only how long it waits, and
 * tells a peer our vote that cannot have it.
 *
 * <ul>
 * <li>Stock waits 200 ms after <em>every</em> message that comes once a quorum agrees. Here the wait ends w after the last
 *     change of our own vote: by then all votes are in, if servers notice a dead leader within j of each other, messages take at
 *     most d, and w &gt; j + d (5.2).</li>
 * <li>It ends at once when the proposed leader says that it leads, and (feature UNANIMOUS) when every voter but the leader we
 *     lost proposes what we do: then no better vote can come. Not where no server has served yet: servers that
 *     start do not all have the same configuration.</li>
 * <li>A peer that notices the death after us did not take our vote, which came while it still followed. When its first vote of
 *     our round comes and is worse than ours, it is told ours again. Stock leaves both waiting for a whole round.</li>
 * </ul>
 *
 * Leaving early never endangers safety: ZAB needs any server that a quorum agrees on, and refuses a leader whose history is
 * older than that of its quorum. The wait only makes that refusal rare.
 *
 * <p>Threads: {@code poll} is called by the election, {@code offer} by stock's receiver.
 */
final class VoteQueue extends LinkedBlockingQueue<Notification> {

    private static final long serialVersionUID = 1L;

    private final transient Member self;
    private final transient FastLeaderElection election;
    private final boolean unanimous;

    /** The vote that the wait is counted from, and since when we have it (System.nanoTime). Election's thread only. */
    private long round = -1;
    private long leader;
    private long zxid;
    private long epoch;
    private long changedNs;
    /** The last vote of each peer, of whatever round. Election's thread only. */
    private final transient Map<Long, Notification> votes = new HashMap<>();
    /** Whom we told our vote again in the round of {@code answeredRound}. Receiver's thread only. */
    private final transient Map<Long, Long> answered = new HashMap<>();
    private long answeredRound = -1;

    VoteQueue(Member self, FastLeaderElection election, boolean unanimous) {
        this.self = self;
        this.election = election;
        this.unanimous = unanimous;
    }

    /**
     * Stock polls with 200 ms when a quorum agrees, and with its notification interval, which {@link RtQuorumPeerMain} keeps
     * from ever being 200 ms, before.
     */
    @Override
    public Notification poll(long timeout, TimeUnit unit) throws InterruptedException {
        noteVote();
        if (unit.toMillis(timeout) != FastLeaderElection.finalizeWait) {
            return seen(super.poll(timeout, unit));
        }
        Notification n = seen(super.poll());
        if (n == null && !(unanimous && self.served() && allAgree())) {
            n = seen(super.poll(Math.max(0, changedNs + self.waitNs() - System.nanoTime()), TimeUnit.NANOSECONDS));
        }
        return n != null && leads(n) ? null : n;
    }

    @Override
    public boolean offer(Notification n) {
        if (self.leavesOut(n.sid, n.leader)) {
            return true;
        }
        answer(n);
        return super.offer(n);
    }

    /** Starts the wait anew where our own vote changed since the last poll. */
    private void noteVote() {
        long now = System.nanoTime();
        if (round != election.logicalclock.get()) {
            self.roundStarted(election.logicalclock.get(), now);
        } else if (leader == election.proposedLeader && zxid == election.proposedZxid && epoch == election.proposedEpoch) {
            return;
        }
        round = election.logicalclock.get();
        leader = election.proposedLeader;
        zxid = election.proposedZxid;
        epoch = election.proposedEpoch;
        changedNs = now;
    }

    private Notification seen(Notification n) {
        if (n != null && n.state == ServerState.LOOKING) {
            votes.put(n.sid, n);
        }
        return n;
    }

    private boolean leads(Notification n) {
        return n.state == ServerState.LEADING && n.sid == leader && n.leader == leader && n.electionEpoch == round;
    }

    private boolean allAgree() {
        Set<Long> others = new HashSet<>(self.getCurrentAndNextConfigVoters());
        others.remove(self.getMyId());
        others.remove(self.lostLeader());
        for (long sid : others) {
            Notification n = votes.get(sid);
            if (n == null || n.electionEpoch != round || n.leader != leader || n.zxid != zxid || n.peerEpoch != epoch) {
                return false;
            }
        }
        return true;
    }

    /** At most once a peer and vote of ours, so that two servers never answer each other for ever. */
    private void answer(Notification n) {
        long clock = election.logicalclock.get();
        Vote ours = election.getVote();
        if (n.state != ServerState.LOOKING || n.sid == self.getMyId() || n.electionEpoch != clock
            || !election.totalOrderPredicate(ours.getId(), ours.getZxid(), ours.getPeerEpoch(), n.leader, n.zxid, n.peerEpoch)) {
            return;
        }
        if (answeredRound != clock) {
            answered.clear();
            answeredRound = clock;
        }
        Long last = answered.put(n.sid, ours.getId());
        if (last == null || last != ours.getId()) {
            self.answeredPeer();
            election.sendqueue.offer(new ToSend(ToSend.mType.notification, ours.getId(), ours.getZxid(), clock,
                ServerState.LOOKING, n.sid, ours.getPeerEpoch(), self.getQuorumVerifier().toString().getBytes(UTF_8)));
        }
    }
}
