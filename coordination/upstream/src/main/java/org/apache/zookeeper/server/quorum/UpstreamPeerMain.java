package org.apache.zookeeper.server.quorum;

import javax.security.sasl.SaslException;

/** Our main class, whose peer is counted. */
public class UpstreamPeerMain extends RtQuorumPeerMain {

    @Override
    protected QuorumPeer getQuorumPeer() throws SaslException {
        return new UpstreamPeer();
    }
}
