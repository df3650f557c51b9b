package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Optional;
import java.util.Set;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.RequestRecord;
import org.apache.zookeeper.txn.CreateSessionTxn;
import org.junit.jupiter.api.Test;

class ForwardedTest {

    /** FollowerRequestProcessor and ObserverRequestProcessor forward these, but check, which comes inside a multi only. */
    private static final Set<Integer> TAKEN = Set.of(OpCode.sync, OpCode.create, OpCode.create2, OpCode.createTTL, OpCode.createContainer,
        OpCode.delete, OpCode.deleteContainer, OpCode.setData, OpCode.reconfig, OpCode.setACL, OpCode.multi, OpCode.check,
        OpCode.createSession, OpCode.closeSession);

    private static Optional<Request> of(int type, RequestRecord body) {
        return Forwarded.of(new Request(null, 7, 5, type, body, null));
    }

    @Test
    void aLeaderTakesWhatLearnersForward() {
        for (int type = -2000; type <= 2000; type++) {
            assertEquals(TAKEN.contains(type), of(type, RequestRecord.fromBytes(new byte[0])).isPresent(), "type " + type);
        }
    }

    @Test
    void aSessionEnds() {
        for (int timeout : new int[] {1, 40_000, Forwarded.LONGEST_SESSION_MS}) {
            assertEquals(OpCode.createSession, session(new CreateSessionTxn(timeout)), "" + timeout);
        }
        // The client gets an answer: an error, as for a multi that cannot be read.
        for (int timeout : new int[] {0, -1, Integer.MIN_VALUE, Forwarded.LONGEST_SESSION_MS + 1, Integer.MAX_VALUE}) {
            assertEquals(OpCode.multi, session(new CreateSessionTxn(timeout)), "" + timeout);
        }
        assertEquals(OpCode.multi, of(OpCode.createSession, RequestRecord.fromBytes(new byte[3])).get().type);
    }

    private static int session(CreateSessionTxn asked) {
        return of(OpCode.createSession, RequestRecord.fromRecord(asked)).get().type;
    }
}
