package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.io.File;
import java.io.IOException;
import java.io.InterruptedIOException;
import java.io.UncheckedIOException;
import java.lang.reflect.Field;
import java.net.SocketTimeoutException;
import java.nio.ByteBuffer;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.BooleanSupplier;
import javax.security.sasl.SaslException;
import org.apache.zookeeper.common.X509Exception;
import org.apache.zookeeper.metrics.MetricsContext;
import org.apache.zookeeper.server.ServerMetrics;
import org.apache.zookeeper.server.ZKDatabase;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog;
import org.apache.zookeeper.server.quorum.FastLeaderElection.ToSend;
import org.apache.zookeeper.server.util.ZxidUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stock's peer with our parts in it: the election's queue (FCLE), word from the leader when its socket is bound (FQCE), the
 * leader's snapshot after it serves, epochs reserved beforehand, phases and bound as metrics. Messages, files and states are
 * stock's, so that ours and stock servers mix.
 */
class RtQuorumPeer extends Member {

    private static final Logger LOG = LoggerFactory.getLogger(RtQuorumPeer.class);
    /**
     * How long a learner tries to connect to a leader that is up, before it asks for another election. Stock's five tries take
     * 500 ms: a leader that starves for longer is then left alone, and only gives up after initLimit ticks.
     */
    private static final long CONNECT_NS = TimeUnit.SECONDS.toNanos(2);
    /** A stock leader never says that it is ready: it is tried this often. */
    private static final long READY_NS = TimeUnit.MILLISECONDS.toNanos(15);
    /** A leader that said so longer ago may be none any more. */
    private static final long HEARD_NS = TimeUnit.SECONDS.toNanos(2);
    /** A server that has not served yet gives its leader no less for its first answer. */
    private static final long STARTING_MS = 2000;

    private final Settings settings;
    private final Ready ready = new Ready();
    private final WaitEstimator waiting;
    private final RecoveryBound bound;
    private final Phases phases;
    private final AtomicLong answers = new AtomicLong();
    private final Seekers seekers = new Seekers();
    private final Suspect suspect = new Suspect();
    private EpochFiles epochFiles;
    private EpochStore epochs;
    private ExecutorService writer;
    private volatile long lostLeader = -1;
    /** Who said last that it leads, while this server did not, and when. */
    private volatile Vote heard;
    private volatile long heardNs;
    /** It steps down as no quorum answers, and has heard of no voter since; until when that counts. */
    private volatile boolean quiet;
    private volatile long quietEndNs;
    /** Until when it tries to connect to a leader. */
    private volatile long connectEndNs;
    /** Whether this process ever served. */
    private volatile boolean served;
    /** Whether its ensemble is lost, and no other elected yet. Guarded by seekers. */
    private boolean lost;

    RtQuorumPeer(Settings settings) throws SaslException {
        this.settings = settings;
        this.waiting = new WaitEstimator(settings);
        this.bound = new RecoveryBound(settings.epochs, waiting);
        this.phases = new Phases(bound, waiting);
    }

    @Override
    public void setTxnFactory(FileTxnSnapLog log) {
        super.setTxnFactory(log);
        // What is still to be written when the server is shut down can be left: it is written in advance.
        writer = new ThreadPoolExecutor(1, 1, 0, TimeUnit.SECONDS, new LinkedBlockingQueue<>(), work -> {
            Thread thread = new Thread(work, "giusto-epochs");
            thread.setDaemon(true);
            return thread;
        }, new ThreadPoolExecutor.DiscardPolicy());
        epochFiles = new EpochFiles(log.getSnapDir().toPath(), bound.forced::add);
        epochs = new EpochStore(settings.epochs, epochFiles, writer);
    }

    /** One that was given no log is never started. */
    @Override
    public void setZKDatabase(ZKDatabase stock) {
        super.setZKDatabase(getTxnFactory() == null ? stock : new RtDatabase(getTxnFactory(), this));
    }

    @Override
    public synchronized void start() {
        try {
            epochFiles.confirm();
        } catch (IOException e) {
            throw new UncheckedIOException("the epochs of this server cannot be written", e);
        }
        registerMetrics();
        super.start();
    }

    @Override
    public void shutdown() {
        super.shutdown();
        writer.shutdown();
    }

    private void registerMetrics() {
        phases.register();
        MetricsContext metrics = ServerMetrics.getMetrics().getMetricsProvider().getRootContext();
        metrics.registerGauge("giusto_wait_us", () -> TimeUnit.NANOSECONDS.toMicros(waiting.waitNs()));
        metrics.registerGauge("giusto_jitter_us", () -> TimeUnit.NANOSECONDS.toMicros(waiting.jitterNs()));
        metrics.registerGauge("giusto_delay_us", () -> TimeUnit.NANOSECONDS.toMicros(waiting.delayNs()));
        metrics.registerGauge("giusto_recovery_bound_us", () -> TimeUnit.NANOSECONDS.toMicros(bound.boundNs(getQuorumSize())));
        metrics.registerGauge("giusto_first_write_bound_us",
            () -> TimeUnit.NANOSECONDS.toMicros(bound.firstWriteNs(getQuorumSize())));
        metrics.registerGauge("giusto_answers", answers::get);
    }

    // The election.

    @Override
    protected Election createElectionAlgorithm(int algorithm) {
        if (algorithm != 3 || !settings.has(Settings.Feature.FCLE)) {
            return super.createElectionAlgorithm(algorithm);
        }
        QuorumCnxManager manager = createCnxnManager();
        QuorumCnxManager old = managers().getAndSet(manager);
        if (old != null) {
            old.halt();
        }
        manager.listener.start();
        waiting.roundsBegin();
        FastLeaderElection election = new FastLeaderElection(this, manager);
        // Before its threads start: no thread has used the queues that are replaced.
        election.recvqueue = new VoteQueue(this, election, settings.has(Settings.Feature.UNANIMOUS));
        election.sendqueue = new WordQueue(election, this::keepsFrom);
        election.start();
        return election;
    }

    @SuppressWarnings("unchecked")
    private AtomicReference<QuorumCnxManager> managers() {
        try {
            Field field = QuorumPeer.class.getDeclaredField("qcmRef");
            field.setAccessible(true);
            return (AtomicReference<QuorumCnxManager>) field.get(this);
        } catch (ReflectiveOperationException e) {
            throw new IllegalStateException("this ZooKeeper is not 3.9.x: QuorumPeer has no qcmRef", e);
        }
    }

    @Override
    public QuorumCnxManager createCnxnManager() {
        // Stock's only access to this property is private.
        int timeout = Integer.getInteger(QUORUM_CNXN_TIMEOUT_MS, -1);
        return new RtCnxnManager(this, timeout > 0 ? timeout : tickTime * syncLimit, quorumCnxnThreadsSize);
    }

    /** A notification starts with state, leader, zxid and round; everything else of it is stock's. */
    @Override
    void peek(QuorumCnxManager.Message message) {
        ByteBuffer buffer = message.buffer.duplicate();
        buffer.clear();
        if (message.sid == getMyId() || buffer.remaining() < 28) {
            return;
        }
        int state = buffer.getInt();
        long leader = buffer.getLong();
        long zxid = buffer.getLong();
        long round = buffer.getLong();
        // What others say is stock's to judge: of them there is no end.
        if (!getVotingView().containsKey(message.sid)) {
            return;
        }
        quiet = false;
        seekers.says(message.sid, state == ServerState.LOOKING.ordinal(), System.nanoTime());
        if (state == ServerState.LEADING.ordinal() && leader == message.sid) {
            ready.says(message.sid, round);
            long epoch = buffer.hasRemaining() ? buffer.getLong() : ZxidUtils.getEpochFromZxid(zxid);
            heardLeader(new Vote(leader, zxid, round, epoch));
        } else if (state == ServerState.LOOKING.ordinal()) {
            waiting.vote(message.sid, round, System.nanoTime());
            reserve();
            Follower following = follower;
            if (following instanceof RtFollower && quorumSeeks()) {
                ((RtFollower) following).othersLook(System.nanoTime());
            }
        }
    }

    @Override
    boolean heardOfAnother() {
        Vote theirs = heard;
        Vote ours = getCurrentVote();
        return theirs != null && ours != null && System.nanoTime() - heardNs < HEARD_NS
            && theirs.getElectionEpoch() > ours.getElectionEpoch();
    }

    /**
     * As a leader it was answered by no quorum. Others may hear it all the same, and its vote is the best: it keeps that to
     * itself for as long as they need to elect another, or until it hears one of them.
     */
    @Override
    void keepsQuiet() {
        long silenceMs = Math.max(Suspect.LEAST_MS, (long) getTickTime() * getSyncLimit());
        quietEndNs = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(silenceMs);
        quiet = true;
    }

    boolean keepsFrom(long sid) {
        return quiet && sid != getMyId() && System.nanoTime() - quietEndNs < 0;
    }

    /** Of two servers that both lead in one round, the one with the better vote stays. */
    private void heardLeader(Vote theirs) {
        Leader leading = leader;
        Vote ours = getCurrentVote();
        if (!(leading instanceof RtLeader)) {
            heard = theirs;
            heardNs = System.nanoTime();
            return;
        }
        boolean better = theirs.getPeerEpoch() != ours.getPeerEpoch() ? theirs.getPeerEpoch() > ours.getPeerEpoch()
            : theirs.getZxid() != ours.getZxid() ? theirs.getZxid() > ours.getZxid() : theirs.getId() > ours.getId();
        if (theirs.getElectionEpoch() > ours.getElectionEpoch() || theirs.getElectionEpoch() == ours.getElectionEpoch() && better) {
            ((RtLeader) leading).heardRival();
        }
    }

    @Override
    public synchronized void setPeerState(ServerState state) {
        if (state == ServerState.LOOKING) {
            phases.lost(System.nanoTime());
            lost(true);
        } else {
            lost(false);
            phases.elected(System.nanoTime());
        }
        super.setPeerState(state);
    }

    @Override
    public void setZabState(ZabState state) {
        super.setZabState(state);
        if (state == ZabState.BROADCAST) {
            served = true;
            suspect.answered();
            phases.serving(System.nanoTime());
            epochs.settle();
            if (leader instanceof RtLeader) {
                ((RtLeader) leader).serves();
            }
        }
    }

    // The parts of a recovery.

    @Override
    protected Leader makeLeader(FileTxnSnapLog log) throws IOException, X509Exception {
        lostLeader = -1;
        LeaderZooKeeperServer server = new RtLeaderServer(log, this, getZkDb(), settings.has(Settings.Feature.SNAPSHOT));
        Leader made = new RtLeader(this, server, settings.stepDownNs(getTickTime(), getSyncLimit()));
        if (settings.has(Settings.Feature.FQCE)) {
            sayReady();
        }
        return made;
    }

    /** The socket is bound: from here on the kernel takes connections, whatever the leader still has to do. */
    private void sayReady() {
        Vote vote = getCurrentVote();
        FastLeaderElection election = (FastLeaderElection) getElectionAlg();
        byte[] config = getQuorumVerifier().toString().getBytes(UTF_8);
        for (long sid : getView().keySet()) {
            if (sid != getMyId()) {
                election.sendqueue.offer(new ToSend(ToSend.mType.notification, vote.getId(), vote.getZxid(),
                    vote.getElectionEpoch(), ServerState.LEADING, sid, vote.getPeerEpoch(), config));
            }
        }
    }

    @Override
    protected Follower makeFollower(FileTxnSnapLog log) throws IOException {
        return new RtFollower(this, new FollowerZooKeeperServer(log, this, getZkDb()) {
            @Override
            public File takeSnapshot(boolean sync, boolean severe) throws IOException {
                namesChanged();
                return super.takeSnapshot(sync, severe);
            }

            @Override
            protected void setState(State state) {
                super.setState(state);
                if (state == State.ERROR) {
                    RtDatabase.threadFailed();
                }
            }
        });
    }

    @Override
    protected Observer makeObserver(FileTxnSnapLog log) throws IOException {
        return new RtObserver(this, new ObserverZooKeeperServer(log, this, getZkDb()) {
            @Override
            public File takeSnapshot(boolean sync, boolean severe) throws IOException {
                namesChanged();
                return super.takeSnapshot(sync, severe);
            }

            @Override
            protected void setState(State state) {
                super.setState(state);
                if (state == State.ERROR) {
                    RtDatabase.threadFailed();
                }
            }
        });
    }

    @Override
    void awaitReady() throws InterruptedIOException {
        if (!settings.has(Settings.Feature.FQCE)) {
            return;
        }
        Vote vote = getCurrentVote();
        try {
            ready.await(vote.getId(), vote.getElectionEpoch(), READY_NS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new InterruptedIOException("interrupted while waiting for the leader");
        }
    }

    /**
     * Tries to connect until it is done, or the socket was handed over, or there is nothing to connect to. Stock gives up after 5
     * tries, however short its pauses are: a leader that still binds must not cost an election; one that died must not cost the
     * rest of the pause.
     */
    @Override
    void connect(Attempt attempt, BooleanSupplier connected) throws IOException {
        long end = System.nanoTime() + Math.min(CONNECT_NS, TimeUnit.MILLISECONDS.toNanos(patienceMs()));
        connectEndNs = end;
        while (true) {
            try {
                attempt.run();
                return;
            } catch (IOException e) {
                boolean up = leaderIsUp();
                if (connected.getAsBoolean() || System.nanoTime() >= end || !up) {
                    if (up) {
                        leaderIsSilent();
                    }
                    throw e;
                }
            }
        }
    }

    /** A machine that is gone refuses nothing: stock would wait for initLimit ticks for it. */
    @Override
    int connectMs(int stockMs) throws SocketTimeoutException {
        long leftMs = TimeUnit.NANOSECONDS.toMillis(connectEndNs - System.nanoTime());
        if (leftMs <= 0) {
            throw new SocketTimeoutException("the leader does not answer");
        }
        return (int) Math.min(stockMs, leftMs);
    }

    @Override
    boolean leaderIsReady() {
        Vote vote = getCurrentVote();
        return vote != null && ready.said(vote.getId(), vote.getElectionEpoch());
    }

    @Override
    boolean leaderIsUp() {
        Vote vote = getCurrentVote();
        QuorumCnxManager manager = getQuorumCnxManager();
        return isRunning() && vote != null && manager != null && manager.connectedToPeer(vote.getId());
    }

    @Override
    int patienceMs() {
        long silenceMs = (long) getTickTime() * getSyncLimit();
        // Who starts is slow, and its peers may be, too.
        return (int) suspect.patienceMs(served() ? silenceMs : Math.max(silenceMs, STARTING_MS), (long) getTickTime() * getInitLimit());
    }

    @Override
    void leaderIsSilent() {
        Vote vote = getCurrentVote();
        if (vote != null) {
            LOG.warn("Server {} was elected, and does not answer at its quorum port: its votes do not count here for {} ms", vote.getId(),
                TimeUnit.NANOSECONDS.toMillis(Suspect.DEAF_NS));
            suspect.silent(vote.getId(), System.nanoTime());
        }
    }

    /** The leader we follow has said nothing for syncLimit ticks: its votes may arrive all the same, and they are the best. */
    @Override
    void leaderFellSilent() {
        Vote vote = getCurrentVote();
        if (vote != null) {
            LOG.warn("Server {} led, and fell silent", vote.getId());
            suspect.fellSilent(vote.getId(), (long) getTickTime() * getSyncLimit(), System.nanoTime());
        }
    }

    @Override
    boolean leavesOut(long voter, long leader) {
        return suspect.concerns(voter, leader, System.nanoTime());
    }

    @Override
    void leaderLost() {
        Vote vote = getCurrentVote();
        lostLeader = vote == null ? -1 : vote.getId();
        phases.lost(System.nanoTime());
        waiting.silence();
        lost(true);
    }

    // Epochs.

    private void lost(boolean now) {
        synchronized (seekers) {
            lost = now;
        }
        reserve();
    }

    /**
     * A server reserves that has lost its ensemble, while a quorum looks for a leader: then the old leader's epoch is over. The old
     * leader would be refused by a server that was alone, reserved, and was killed before it took the reservation back; so it would
     * by one that starts, which most often finds a leader.
     */
    private void reserve() {
        try {
            if (served && isRunning() && quorumSeeks()) {
                synchronized (seekers) {
                    if (lost) {
                        epochs.reserve(getAcceptedEpoch());
                    }
                }
            }
        } catch (IOException e) {
            LOG.warn("The epoch promised last cannot be read", e);
        }
    }

    private boolean quorumSeeks() {
        Set<Long> seeking = seekers.at(System.nanoTime());
        seeking.add(getMyId());
        seeking.retainAll(getVotingView().keySet());
        return getQuorumVerifier().containsQuorum(seeking);
    }

    @Override
    void writeLongToFile(String name, long value) throws IOException {
        if (name.equals(ACCEPTED_EPOCH_FILENAME)) {
            epochs.promise(value);
        } else if (name.equals(CURRENT_EPOCH_FILENAME)) {
            epochs.enter(value);
        } else {
            super.writeLongToFile(name, value);
        }
    }

    @Override
    void namesChanged() {
        epochFiles.namesChanged();
    }

    // What our parts ask.

    @Override
    long lostLeader() {
        return lostLeader;
    }

    /**
     * Servers that start are minutes apart, not j: until it has served, a server waits as long as stock does. A wrong leader would
     * wait for its followers for initLimit ticks.
     */
    @Override
    long waitNs() {
        return served() ? waiting.waitNs() : Settings.STOCK_WAIT_NS;
    }

    @Override
    boolean served() {
        return served;
    }

    @Override
    WaitEstimator waiting() {
        return waiting;
    }

    @Override
    Phases phases() {
        return phases;
    }

    @Override
    void roundStarted(long round, long nowNs) {
        phases.roundStarted(round, nowNs);
    }

    @Override
    void answeredPeer() {
        answers.incrementAndGet();
    }
}
