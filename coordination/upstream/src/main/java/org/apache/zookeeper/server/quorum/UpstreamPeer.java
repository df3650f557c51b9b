package org.apache.zookeeper.server.quorum;

import java.io.File;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.flexible.QuorumMaj;
import org.apache.zookeeper.server.quorum.flexible.QuorumOracleMaj;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;

/** Our peer with the constructors of stock's, which upstream's tests call; counted. */
public class UpstreamPeer extends RtQuorumPeer {

    private static final AtomicInteger MADE = new AtomicInteger();
    private static final AtomicInteger ELECTIONS = new AtomicInteger();

    /** How many there were in this process. */
    public static int made() {
        return MADE.get();
    }

    /** How many rounds of elections our queue saw begin. */
    public static int elections() {
        return ELECTIONS.get();
    }

    public UpstreamPeer() throws SaslException {
        super(Settings.of(System.getProperties()));
        MADE.incrementAndGet();
    }

    public UpstreamPeer(Map<Long, QuorumServer> peers, File snapshots, File logs, int election, long id, int tick, int init,
        int sync, int learners, boolean everywhere, ServerCnxnFactory clients, QuorumVerifier config) throws IOException {
        this();
        setCnxnFactory(clients);
        setElectionType(election);
        setMyid(id);
        setTickTime(tick);
        setInitLimit(init);
        setSyncLimit(sync);
        setConnectToLearnerMasterLimit(learners);
        setQuorumListenOnAllIPs(everywhere);
        setTxnFactory(new FileTxnSnapLog(logs, snapshots));
        setZKDatabase(new ZKDatabase(getTxnFactory()));
        setQuorumVerifier(config == null ? new QuorumMaj(peers) : config, false);
    }

    public UpstreamPeer(Map<Long, QuorumServer> peers, File snapshots, File logs, int election, long id, int tick, int init,
        int sync, int learners, ServerCnxnFactory clients) throws IOException {
        this(peers, snapshots, logs, election, id, tick, init, sync, learners, false, clients, null);
    }

    public UpstreamPeer(Map<Long, QuorumServer> peers, File snapshots, File logs, int port, int election, long id, int tick,
        int init, int sync, int learners) throws IOException {
        this(peers, snapshots, logs, port, election, id, tick, init, sync, learners, new QuorumMaj(peers));
    }

    public UpstreamPeer(Map<Long, QuorumServer> peers, File snapshots, File logs, int port, int election, long id, int tick,
        int init, int sync, int learners, String oracle) throws IOException {
        this(peers, snapshots, logs, port, election, id, tick, init, sync, learners, new QuorumOracleMaj(peers, oracle));
    }

    public UpstreamPeer(Map<Long, QuorumServer> peers, File snapshots, File logs, int port, int election, long id, int tick,
        int init, int sync, int learners, QuorumVerifier config) throws IOException {
        this(peers, snapshots, logs, election, id, tick, init, sync, learners, false,
            ServerCnxnFactory.createFactory(address(peers.get(id), port), -1), config);
    }

    private static InetSocketAddress address(QuorumServer server, int port) throws IOException {
        if (server == null) {
            throw new IOException("no such server");
        }
        InetAddress host = server.clientAddr == null ? null : server.clientAddr.getAddress();
        return host == null ? new InetSocketAddress(port) : new InetSocketAddress(host, port);
    }

    public static QuorumPeer testingQuorumPeer() throws SaslException {
        return new UpstreamPeer();
    }

    @Override
    void roundStarted(long round, long nowNs) {
        ELECTIONS.incrementAndGet();
        super.roundStarted(round, nowNs);
    }
}
