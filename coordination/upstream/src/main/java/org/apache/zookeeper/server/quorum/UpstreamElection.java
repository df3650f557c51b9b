package org.apache.zookeeper.server.quorum;

/** An election that a test makes itself: with our queues, as {@link RtQuorumPeer} makes one, where its peer is ours. */
public class UpstreamElection extends FastLeaderElection {

    public UpstreamElection(QuorumPeer self, QuorumCnxManager manager) {
        super(self, manager);
        if (self instanceof RtQuorumPeer) {
            RtQuorumPeer peer = (RtQuorumPeer) self;
            recvqueue = new VoteQueue(peer, this, true);
            sendqueue = new WordQueue(this, peer::keepsFrom);
        }
    }
}
