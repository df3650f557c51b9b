package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.txn.CreateSessionTxn;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What a leader takes from a learner: writes, syncs, and sessions. A learner answers all else itself, and 3.9.5 does not look: for a
 * request of type "error" its CommitProcessor halts, so that no client of the leader is answered any more and every later proposal
 * stays in memory (FinalRequestProcessor treats it as a write that was not proposed); a session without an end is kept for ever.
 */
final class Forwarded {

    private static final Logger LOG = LoggerFactory.getLogger(Forwarded.class);
    private static final Set<Integer> TYPES = Set.of(OpCode.create, OpCode.create2, OpCode.createContainer, OpCode.createTTL,
        OpCode.delete, OpCode.deleteContainer, OpCode.setData, OpCode.setACL, OpCode.reconfig, OpCode.multi, OpCode.check, OpCode.sync,
        OpCode.createSession, OpCode.closeSession);
    /** A learner negotiates with its clients by settings of its own (maxSessionTimeout); none has reason to allow more. */
    static final int LONGEST_SESSION_MS = (int) TimeUnit.DAYS.toMillis(1);

    private Forwarded() {
    }

    /** What the leader's first processor gets in its place; nothing where no learner waits for an answer. */
    static Optional<Request> of(Request request) {
        if (!TYPES.contains(request.type)) {
            LOG.warn("A learner asks for {} in the name of session 0x{}: not taken", request.type, Long.toHexString(request.sessionId));
            return Optional.empty();
        }
        if (request.type == OpCode.createSession && !ends(request)) {
            LOG.warn("A learner asks for a session that cannot be read or has not 1 to {} ms: refused", LONGEST_SESSION_MS);
            return Optional.of(Readable.failing(request));
        }
        return Optional.of(Readable.of(request));
    }

    private static boolean ends(Request session) {
        try {
            // Stock keeps what was read, so that nothing is read twice.
            int timeout = session.readRequestRecord(CreateSessionTxn::new).getTimeOut();
            return timeout > 0 && timeout <= LONGEST_SESSION_MS;
        } catch (IOException | RuntimeException e) {
            return false;
        }
    }
}
