package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.List;
import org.apache.jute.BinaryOutputArchive;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.MultiOperationRecord;
import org.apache.zookeeper.Op;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.proto.CreateRequest;
import org.apache.zookeeper.proto.MultiHeader;
import org.apache.zookeeper.proto.SetDataRequest;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.RequestRecord;
import org.junit.jupiter.api.Test;

class ReadableTest {

    private static final int[] WRITES = {OpCode.create, OpCode.create2, OpCode.createContainer, OpCode.createTTL, OpCode.delete,
        OpCode.deleteContainer, OpCode.setData, OpCode.setACL, OpCode.reconfig, OpCode.check, OpCode.multi};

    private static Request request(int type, byte[] body) {
        return new Request(null, 7, 5, type, RequestRecord.fromBytes(body), null);
    }

    @Test
    void whatCannotBeReadBecomesAMultiThatFails() {
        for (int type : WRITES) {
            Request wrong = request(type, new byte[] {0, 0});
            wrong.setOwner("a learner");
            Request error = Readable.of(wrong);
            assertNotSame(wrong, error, OpCode.class + " " + type);
            assertEquals(OpCode.multi, error.type);
            assertEquals(7, error.sessionId);
            assertEquals(5, error.cxid);
            assertEquals("a learner", error.getOwner());
            assertThrows(IOException.class, () -> error.readRequestRecord(MultiOperationRecord::new));
        }
    }

    /** It has all its bytes, and stock's reader throws what it does not catch. */
    @Test
    void aMultiWithoutAnAclBecomesOneThatFails() throws IOException {
        for (int type : new int[] {OpCode.create, OpCode.create2, OpCode.createContainer}) {
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            BinaryOutputArchive out = BinaryOutputArchive.getArchive(bytes);
            new MultiHeader(type, false, -1).serialize(out, "header");
            new CreateRequest("/a", new byte[0], null, type == OpCode.createContainer ? CreateMode.CONTAINER.toFlag() : 0).serialize(out, "create");
            new MultiHeader(-1, true, -1).serialize(out, "header");
            Request error = Readable.of(request(OpCode.multi, bytes.toByteArray()));
            assertThrows(IOException.class, () -> error.readRequestRecord(MultiOperationRecord::new));
        }
    }

    @Test
    void theRestIsLeftAsItIs() {
        Request write = new Request(null, 7, 5, OpCode.setData, RequestRecord.fromRecord(new SetDataRequest("/a", new byte[] {1}, 3)), null);
        assertSame(write, Readable.of(write));
        Request multi = new Request(null, 7, 5, OpCode.multi,
            RequestRecord.fromRecord(new MultiOperationRecord(List.of(Op.setData("/a", new byte[] {1}, 3), Op.delete("/b", -1)))), null);
        assertSame(multi, Readable.of(multi));
        for (int type : new int[] {OpCode.getData, OpCode.createSession, OpCode.closeSession, OpCode.sync, 999}) {
            Request other = request(type, new byte[] {0, 0});
            assertSame(other, Readable.of(other));
        }
    }
}
