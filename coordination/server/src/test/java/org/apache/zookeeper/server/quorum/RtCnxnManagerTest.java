package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetSocketAddress;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.junit.jupiter.api.Test;

/** Server 3 of 3, and an address that never answers. */
class RtCnxnManagerTest {

    private final Set<Long> asked = ConcurrentHashMap.newKeySet();
    private final CountDownLatch never = new CountDownLatch(1);

    private RtCnxnManager manager() throws Exception {
        RtQuorumPeer peer = new RtQuorumPeer(Settings.of(new Properties()));
        peer.setMyid(3);
        Map<Long, QuorumServer> servers = new HashMap<>();
        for (long sid = 1; sid <= 3; sid++) {
            servers.put(sid, new QuorumServer(sid, new InetSocketAddress("127.0.0.1", (int) sid), new InetSocketAddress("127.0.0.1", 0)));
        }
        peer.setQuorumVerifier(new QuorumMaj(servers), false);
        peer.setLastSeenQuorumVerifier(new QuorumMaj(servers), false);
        return new RtCnxnManager(peer, 1000, 20) {
            @Override
            public void initiateConnection(MultipleAddresses address, Long sid) {
                asked.add(sid);
                try {
                    never.await();
                } catch (InterruptedException e) {
                    Thread.currentThread().interrupt();
                }
            }
        };
    }

    @Test
    void strangersThatDoNotAnswerLeaveRoomForPeers() throws Exception {
        RtCnxnManager manager = manager();
        MultipleAddresses nowhere = new MultipleAddresses(new InetSocketAddress("127.0.0.1", 1));
        int tried = 0;
        for (long sid = -200; sid < -100; sid++) {
            tried += manager.initiateConnectionAsync(nowhere, sid) ? 1 : 0;
        }
        assertEquals(RtCnxnManager.TRIES, tried);
        Set<Long> peers = new HashSet<>(Set.of(1L, 2L));
        for (long sid : peers) {
            assertTrue(manager.initiateConnectionAsync(nowhere, sid), "server " + sid);
        }
        for (int i = 0; i < 1000 && !asked.containsAll(peers); i++) {
            TimeUnit.MILLISECONDS.sleep(10);
        }
        assertTrue(asked.containsAll(peers), "asked: " + asked);
        never.countDown();
    }
}
