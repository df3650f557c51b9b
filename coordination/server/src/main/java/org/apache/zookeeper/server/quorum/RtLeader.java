package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.common.X509Exception;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.quorum.flexible.QuorumOracleMaj;
import org.apache.zookeeper.server.quorum.flexible.QuorumVerifier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stock's leader, which gives way to one that has the followers, and whose port strangers cannot use to stop it: by an epoch at
 * the end of all epochs, connections that never become learners, requests whose answers are not read, packets without an end,
 * ever new names, requests that no learner forwards.
 */
final class RtLeader extends Leader {

    private static final Logger LOG = LoggerFactory.getLogger(RtLeader.class);
    /** How far a learner's promise can be ahead of ours: so many elections failed without us. */
    private static final long EPOCHS = 1 << 16;
    /** Packets. A follower with a hundred thousand clients that all come back is below it. */
    static final int UNREAD = 200_000;
    /** Bytes of what an observer is told. Who is told by a log that is as long as stock lets it be (a third of the snapshot) is below it. */
    private static final long UNREAD_BYTES = Runtime.getRuntime().maxMemory() / 4;
    /** Counting them takes a while: after so many new ones. */
    private static final long COUNT_BYTES = 16 << 20;
    /** So many names that are in no configuration are let in: stock keeps figures of each, 32 kB, for as long as the process runs. */
    private static final int STRANGERS = 256;
    private static final Set<Long> NAMES = new HashSet<>();
    /** A leader that will have a quorum has it by then. */
    private static final long RIVAL_MS = TimeUnit.SECONDS.toMillis(1);

    /** Learners that are not in step yet, in the order they came. */
    private final Set<LearnerHandler> arriving = new LinkedHashSet<>();
    /** The thread that waits for a quorum of followers. */
    private Thread alone;
    private boolean rival;
    /** Bytes that observers were told since it was counted what they have not read. Guarded by this. */
    private long told;

    /** Heartbeats carry when they were sent, in ns since then. */
    private final long bornNs = System.nanoTime();
    private final Lease lease;
    /** The thread that sends heartbeats. */
    private volatile Thread leading;

    /** @param patienceNs it steps down where no quorum has answered a heartbeat that is younger; 0: stock's timeouts decide */
    RtLeader(Member self, LeaderZooKeeperServer server, long patienceNs) throws IOException, X509Exception {
        super(self, server);
        lease = patienceNs > 0 ? new Lease(patienceNs) : null;
    }

    /** Called by its own thread, which sends heartbeats from now on. */
    void serves() {
        // Of what an oracle decides a quorum tells nothing; TLS and SASL hide answers.
        boolean hidden = self.isSslQuorum() || self.shouldUsePortUnification() || self.isQuorumSaslAuthEnabled();
        if (lease == null || hidden || self.getQuorumVerifier() instanceof QuorumOracleMaj) {
            return;
        }
        leading = Thread.currentThread();
        Thread thread = new Thread(this::holdOn, "giusto-lease");
        thread.setDaemon(true);
        thread.start();
    }

    /** Stock's heartbeat has this zxid, which each learner sends back unread. One below 0 does not count as a request's. */
    @Override
    public synchronized long getLastProposed() {
        return Thread.currentThread() == leading ? -1 - (System.nanoTime() - bornNs) : super.getLastProposed();
    }

    /** Called by a learner's thread. */
    private void answered(long zxid) {
        long sentNs = bornNs - 1 - zxid;
        if (lease != null && zxid < 0 && sentNs - System.nanoTime() <= 0 && Thread.currentThread() instanceof LearnerHandler) {
            lease.answered(((LearnerHandler) Thread.currentThread()).getSid(), sentNs);
        }
    }

    private void holdOn() {
        try {
            while (self.isRunning() && zk.isRunning()) {
                long leftNs = lease.leftNs(self.getMyId(), self.getCurrentAndNextConfigVoters(), this::isQuorum, System.nanoTime());
                if (leftNs <= 0) {
                    LOG.warn("No quorum has answered for so long that another leader may be elected soon");
                    ((Member) self).keepsQuiet();
                    shutdown("No quorum answers");
                    return;
                }
                TimeUnit.NANOSECONDS.sleep(leftNs);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    private boolean isQuorum(Set<Long> sids) {
        QuorumVerifier now = self.getQuorumVerifier();
        QuorumVerifier next = self.getLastSeenQuorumVerifier();
        return now.containsQuorum(sids) && (next == null || next.getVersion() <= now.getVersion() || next.containsQuorum(sids));
    }

    /** Called by stock's constructor. TLS and SASL say something else first, and keep strangers out themselves. */
    @Override
    Optional<ServerSocket> createServerSocket(InetSocketAddress address, boolean portUnification, boolean sslQuorum) {
        if (portUnification || sslQuorum || self.isQuorumSaslAuthEnabled()) {
            return super.createServerSocket(address, portUnification, sslQuorum);
        }
        try {
            // Resolved anew, as stock does.
            InetSocketAddress bound = new InetSocketAddress(address.getHostString(), address.getPort());
            return Optional.of(new GuardedServerSocket(bound, this::answered));
        } catch (IOException e) {
            LOG.error("Couldn't bind to {}", address, e);
            return Optional.empty();
        }
    }

    @Override
    public long getEpochToPropose(long sid, long promised) throws InterruptedException, IOException {
        if (sid != self.getMyId()) {
            if (promised > self.getAcceptedEpoch() + EPOCHS) {
                throw new IOException("server " + sid + " says that it promised epoch " + promised + ", ours is " + self.getAcceptedEpoch());
            }
            if (!self.getView().containsKey(sid) && !isLetIn(sid)) {
                throw new IOException("server " + sid + " is in no configuration, and " + STRANGERS + " others came before");
            }
            return promisedEpoch(sid, promised);
        }
        synchronized (arriving) {
            alone = Thread.currentThread();
        }
        if (((Member) self).heardOfAnother()) {
            heardRival();
        }
        try {
            return promisedEpoch(sid, promised);
        } finally {
            synchronized (arriving) {
                alone = null;
            }
        }
    }

    /**
     * The caller that completes the quorum writes the leader's promise. If that fails stock's other threads go on all the same; a
     * server that then enters the epoch does not start any more, as it is above what it promised.
     */
    private long promisedEpoch(long sid, long promised) throws InterruptedException, IOException {
        try {
            long epoch = super.getEpochToPropose(sid, promised);
            if (epoch > self.getAcceptedEpoch()) {
                throw new IOException("epoch " + epoch + " is not promised: it could not be written");
            }
            return epoch;
        } catch (IOException e) {
            lookAgain("The epoch could not be written");
            throw e;
        }
    }

    /**
     * Another server leads, with a better vote or in a later round. A leader that has no quorum soon after has no followers and
     * gives way. Stock waits for initLimit ticks, and is missing meanwhile.
     */
    void heardRival() {
        synchronized (arriving) {
            if (rival) {
                return;
            }
            rival = true;
        }
        Thread thread = new Thread(this::giveWay, "giusto-rival");
        thread.setDaemon(true);
        thread.start();
    }

    private void giveWay() {
        try {
            Thread.sleep(RIVAL_MS);
        } catch (InterruptedException e) {
            return;
        }
        lookAgain("Another server leads and this one has no followers");
    }

    private void lookAgain(String why) {
        synchronized (arriving) {
            if (alone != null && alone != Thread.currentThread()) {
                LOG.info("{}: it looks for its leader again", why);
                alone.interrupt();
            }
        }
    }

    @Override
    public void addLearnerHandler(LearnerHandler learner) {
        super.addLearnerHandler(learner);
        LearnerHandler longest = null;
        synchronized (arriving) {
            arriving.add(learner);
            arriving.removeAll(getForwardingFollowers());
            arriving.removeAll(getObservingLearners());
            if (arriving.size() > Door.ROOM + self.getView().size()) {
                longest = arriving.iterator().next();
                arriving.remove(longest);
            }
        }
        if (longest != null) {
            LOG.warn("Too many learners are arriving; the first of them, {}, is sent away", longest.getRemoteAddress());
            longest.shutdown();
        }
    }

    /** With it goes what it was still to be told. */
    @Override
    public void removeLearnerHandler(LearnerHandler learner) {
        super.removeLearnerHandler(learner);
        synchronized (arriving) {
            arriving.remove(learner);
        }
    }

    @Override
    public void revalidateSession(QuorumPacket packet, LearnerHandler learner) throws IOException {
        if (deaf(learner)) {
            throw new IOException("server " + learner.getSid() + " does not read our answers");
        }
        super.revalidateSession(packet, learner);
    }

    /** A learner's client waits for each answer before its next, so none that it reads may be left out: it begins anew. */
    @Override
    public void submitLearnerRequest(Request request) {
        if (request.getOwner() instanceof LearnerHandler && deaf((LearnerHandler) request.getOwner())) {
            sendAway((LearnerHandler) request.getOwner());
        } else {
            Forwarded.of(request).ifPresent(super::submitLearnerRequest);
        }
    }

    /** Called for each write. Stock looks only whether followers acknowledge. */
    @Override
    synchronized void sendObserverPacket(QuorumPacket packet) {
        super.sendObserverPacket(packet);
        told += LearnerHandler.packetSize(packet);
        boolean count = told > COUNT_BYTES;
        told = count ? 0 : told;
        for (LearnerHandler observer : getObservingLearners()) {
            if (deaf(observer) || count && unreadBytes(observer) > UNREAD_BYTES) {
                sendAway(observer);
            }
        }
    }

    private static long unreadBytes(LearnerHandler learner) {
        return learner.queuedPackets.stream().mapToLong(LearnerHandler::packetSize).sum();
    }

    private static void sendAway(LearnerHandler deaf) {
        LOG.warn("Server {}, {}, does not read what it is told; it is sent away", deaf.getSid(), deaf.getRemoteAddress());
        deaf.shutdown();
    }

    private static boolean isLetIn(long sid) {
        synchronized (NAMES) {
            return NAMES.contains(sid) || NAMES.size() < STRANGERS && NAMES.add(sid);
        }
    }

    private static boolean deaf(LearnerHandler learner) {
        return learner.queuedPackets.size() > UNREAD;
    }
}
