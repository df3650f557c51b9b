package org.apache.zookeeper.server.quorum;

/** A rehearsal and nothing else: what java then writes is the archive of linked classes (bin/giusto-zookeeper). */
public final class Archive {

    private Archive() {
    }

    public static void main(String[] args) {
        new RtQuorumPeerMain(Settings.of(System.getProperties())).prepare();
        // Threads of the rehearsal that do not end by themselves end with the process.
        System.exit(0);
    }
}
