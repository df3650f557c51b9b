package org.apache.zookeeper.server.quorum;

import javax.security.sasl.SaslException;

/** A server with our peer. */
class Runner extends QuorumPeerMain {

    Settings settings;

    Runner() {
    }

    Runner(Settings settings) {
        this.settings = settings;
    }

    @Override
    protected QuorumPeer getQuorumPeer() throws SaslException {
        return new RtQuorumPeer(settings) {
            @Override
            public synchronized void start() {
                super.start();
                started();
            }
        };
    }

    /** It has its data and votes. */
    void started() {
    }
}
