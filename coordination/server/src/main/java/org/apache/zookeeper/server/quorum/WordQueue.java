package org.apache.zookeeper.server.quorum;

import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.LongPredicate;
import org.apache.zookeeper.server.quorum.FastLeaderElection.ToSend;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;

/**
 * What this server has to say to its peers, in the place of the queue that stock's election sends from: all of it but what is
 * out of date.
 *
 * <p>Between the end of an election and the moment the peer notes its outcome, stock answers a peer that still looks for a leader
 * with the state of now and the vote of the election before. The peer has no use for that; and because stock keeps only the last
 * unsent message to each peer, it can take the place of the vote that peer waits for, who then waits until it asks again.
 * Otherwise the round of a server that has a leader is that of its vote; it is -1 where that leader was not elected, but a
 * reconfiguration that removed the one before named it.
 */
final class WordQueue extends LinkedBlockingQueue<ToSend> {

    private static final long serialVersionUID = 1L;

    private final transient FastLeaderElection election;

    private final transient LongPredicate quiet;

    /** @param quiet to whom no vote is to be told */
    WordQueue(FastLeaderElection election, LongPredicate quiet) {
        this.election = election;
        this.quiet = quiet;
    }

    @Override
    public boolean offer(ToSend word) {
        boolean outdated = word.state != ServerState.LOOKING && word.electionEpoch >= 0 && word.electionEpoch < election.logicalclock.get();
        boolean kept = word.state == ServerState.LOOKING && quiet.test(word.sid);
        return outdated || kept || super.offer(word);
    }
}
