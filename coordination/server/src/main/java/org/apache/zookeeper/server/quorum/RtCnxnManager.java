package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Stock's election channel, which tells our peer what arrives, and which strangers cannot stop. In stock one connection that says
 * nothing holds up all others, one address with a port above 65535 ends the thread that accepts, one malformed configuration ends
 * the thread that reads votes, every number that a stranger gives itself is remembered for ever, and 20 addresses that do not
 * answer leave no thread to connect to a peer.
 */
class RtCnxnManager extends QuorumCnxManager {

    private static final Logger LOG = LoggerFactory.getLogger(RtCnxnManager.class);
    /** state, leader, zxid, round, epoch, version; then the length of the configuration, and it. */
    private static final int VERSION_AT = 36;
    private static final int CONFIG_AT = 44;

    /** Connections to servers that are not in the configuration, which may be one that joins, that are tried at a time. */
    static final int TRIES = 4;

    private final Member peer;
    private final Door door = new Door();
    private final ExecutorService strangers = new ThreadPoolExecutor(0, TRIES, 1, TimeUnit.SECONDS, new SynchronousQueue<>(), work -> {
        Thread thread = new Thread(work, "giusto-strangers");
        thread.setDaemon(true);
        return thread;
    });
    /** The last configuration that could be read. */
    private volatile ByteBuffer readable = ByteBuffer.allocate(0);

    RtCnxnManager(Member peer, int timeoutMs, int threads) {
        super(peer, peer.getMyId(), peer.getView(), peer.authServer, peer.authLearner, timeoutMs, peer.getQuorumListenOnAllIPs(),
            threads, peer.isQuorumSaslAuthEnabled());
        this.peer = peer;
    }

    @Override
    public void receiveConnection(Socket socket) {
        door.enter(socket, () -> {
            super.receiveConnection(socket);
            forgetStrangers();
        });
    }

    /** Stock has as many threads as an ensemble has servers, no more, and asks the address that a stranger says is its own. */
    @Override
    public boolean initiateConnectionAsync(MultipleAddresses address, Long sid) {
        if (peer.getView().containsKey(sid) || peer.getLastSeenQuorumVerifier().getAllMembers().containsKey(sid)) {
            return super.initiateConnectionAsync(address, sid);
        }
        try {
            strangers.execute(() -> initiateConnection(address, sid));
            return true;
        } catch (RejectedExecutionException e) {
            LOG.debug("Server {} is not asked at {}: enough others are", sid, address);
            return false;
        }
    }

    @Override
    public void halt() {
        strangers.shutdown();
        super.halt();
    }

    /**
     * A server that is not in the configuration may well be one that joins, so strangers are let in; of more than there is room for,
     * all are forgotten. Who needs us connects again.
     */
    private synchronized void forgetStrangers() {
        Set<Long> strangers = new HashSet<>(queueSendMap.keySet());
        strangers.removeAll(peer.getView().keySet());
        if (strangers.size() <= Door.ROOM) {
            return;
        }
        LOG.warn("{} servers that are not in the configuration have connected; they are forgotten", strangers.size());
        for (long sid : strangers) {
            SendWorker worker = senderWorkerMap.get(sid);
            if (worker != null) {
                worker.finish();
            }
            queueSendMap.remove(sid);
            lastMessageSent.remove(sid);
        }
    }

    @Override
    public void addToRecvQueue(Message message) {
        if (canBeRead(message)) {
            peer.peek(message);
            super.addToRecvQueue(message);
        }
    }

    /** Stock's reader survives a configuration that is wrong, but not one whose numbers or escapes are. */
    private boolean canBeRead(Message message) {
        ByteBuffer buffer = message.buffer.duplicate();
        buffer.clear();
        if (buffer.remaining() < CONFIG_AT || buffer.getInt(VERSION_AT) < 2) {
            return true;
        }
        int length = buffer.getInt(VERSION_AT + 4);
        if (length < 0 || length > buffer.remaining() - CONFIG_AT) {
            return true;
        }
        buffer.position(CONFIG_AT).limit(CONFIG_AT + length);
        ByteBuffer config = buffer.slice();
        if (config.equals(readable)) {
            return true;
        }
        try {
            peer.configFromString(UTF_8.decode(config.duplicate()).toString());
            readable = config;
        } catch (IOException | ConfigException e) {
            LOG.debug("Stock will say what is wrong", e);
        } catch (RuntimeException e) {
            LOG.warn("A notification of server {} is dropped: its configuration cannot be read", message.sid, e);
            return false;
        }
        return true;
    }
}
