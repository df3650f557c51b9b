package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.Map;
import java.util.Properties;
import org.apache.jute.BinaryInputArchive;
import org.apache.jute.BinaryOutputArchive;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.QuorumPeer.QuorumServer;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.apache.zookeeper.server.util.ZxidUtils;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A follower, and a leader of which there is only the socket. */
class RtFollowerTest {

    @TempDir
    Path dir;
    private ServerSocket port;
    private RtFollower follower;
    private RtQuorumPeer peer;
    private boolean ready;
    private int connections;

    @BeforeEach
    void follows() throws Exception {
        FileTxnSnapLog log = new FileTxnSnapLog(dir.toFile(), dir.toFile());
        Properties bare = new Properties();
        bare.setProperty("giusto.features", "fcle");
        peer = new RtQuorumPeer(Settings.of(bare)) {
            @Override
            void writeLongToFile(String name, long value) {
            }

            @Override
            boolean leaderIsUp() {
                return true;
            }

            @Override
            boolean leaderIsReady() {
                return ready;
            }

            @Override
            public long getCurrentEpoch() {
                return 3;
            }

            @Override
            public long getAcceptedEpoch() {
                return 3;
            }

            @Override
            public void setAcceptedEpoch(long epoch) {
            }

            @Override
            public long getLastLoggedZxid() {
                return 0;
            }
        };
        peer.setTickTime(100);
        peer.setInitLimit(100);
        peer.setSyncLimit(20);
        peer.setMyid(2);
        peer.setTxnFactory(log);
        peer.setQuorumListenOnAllIPs(false);
        port = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        InetSocketAddress any = new InetSocketAddress("127.0.0.1", port.getLocalPort());
        Map<Long, QuorumServer> servers = Map.of(1L, new QuorumServer(1, any, any), 2L, new QuorumServer(2, any, any));
        peer.setQuorumVerifier(new QuorumMaj(servers), false);
        peer.setCurrentVote(new Vote(1, 0));
        peer.initialize();
        follower = new RtFollower(peer, new FollowerZooKeeperServer(log, peer, new ZKDatabase(log)));
    }

    @AfterEach
    void ends() throws IOException {
        port.close();
    }

    /** The first connections are closed at once, as a relay does; the next is answered. */
    private void leads(int closed) {
        Thread leader = new Thread(() -> {
            try {
                while (true) {
                    Socket socket = port.accept();
                    if (connections++ < closed) {
                        socket.close();
                        continue;
                    }
                    BinaryInputArchive.getArchive(socket.getInputStream()).readRecord(new QuorumPacket(), "packet");
                    BufferedOutputStream out = new BufferedOutputStream(socket.getOutputStream());
                    byte[] version = ByteBuffer.allocate(4).putInt(0x10000).array();
                    BinaryOutputArchive.getArchive(out)
                        .writeRecord(new QuorumPacket(Leader.LEADERINFO, ZxidUtils.makeZxid(4, 0), version, null), "packet");
                    out.flush();
                }
            } catch (IOException e) {
                // The test is over.
            }
        });
        leader.setDaemon(true);
        leader.start();
    }

    private long registers() throws IOException {
        follower.connectToLeader(new MultipleAddresses(new InetSocketAddress("127.0.0.1", port.getLocalPort())), "leader");
        return ZxidUtils.getEpochFromZxid(follower.registerWithLeader(Leader.FOLLOWERINFO));
    }

    @Test
    void aLeaderBehindARelayThatDoesNotListenYetIsTriedAgain() throws IOException {
        leads(3);
        assertEquals(4, registers());
        assertEquals(4, connections);
    }

    @Test
    void oneThatListensAndClosesTheConnectionIsLeft() {
        ready = true;
        leads(3);
        assertThrows(IOException.class, this::registers);
        assertEquals(1, connections);
    }

    @Test
    void aMachineThatIsGoneIsNotConnectedToForInitLimitTicks() throws IOException {
        follower.connectToLeader(new MultipleAddresses(new InetSocketAddress("127.0.0.1", port.getLocalPort())), "leader");
        assertTrue(peer.connectMs(60_000) <= 2000);
        assertEquals(5, peer.connectMs(5));
    }
}
