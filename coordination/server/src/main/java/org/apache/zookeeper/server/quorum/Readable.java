package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.jute.Record;
import org.apache.zookeeper.DeleteContainerRequest;
import org.apache.zookeeper.MultiOperationRecord;
import org.apache.zookeeper.ZooDefs.OpCode;
import org.apache.zookeeper.proto.CheckVersionRequest;
import org.apache.zookeeper.proto.CreateRequest;
import org.apache.zookeeper.proto.CreateTTLRequest;
import org.apache.zookeeper.proto.DeleteRequest;
import org.apache.zookeeper.proto.ReconfigRequest;
import org.apache.zookeeper.proto.SetACLRequest;
import org.apache.zookeeper.proto.SetDataRequest;
import org.apache.zookeeper.server.Request;
import org.apache.zookeeper.server.RequestRecord;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Keeps requests that cannot be read from a leader's first processor. For one of these writes 3.9.5 proposes an error with the zxid
 * of the write before (PrepRequestProcessor.pRequestHelper, the last catch), and no quorum ever acknowledges anything again: two
 * bytes of any client stop an ensemble. Only a multi that ends too soon gets a zxid of its own; one that has no ACL (-1 of them) does not.
 * These are all types whose body is read before there is a header: the other two, sessions, have theirs first.
 */
final class Readable {

    private static final Logger LOG = LoggerFactory.getLogger(Readable.class);
    private static final Map<Integer, Supplier<Record>> RECORDS = new HashMap<>();

    static {
        RECORDS.put(OpCode.create, CreateRequest::new);
        RECORDS.put(OpCode.create2, CreateRequest::new);
        RECORDS.put(OpCode.createContainer, CreateRequest::new);
        RECORDS.put(OpCode.createTTL, CreateTTLRequest::new);
        RECORDS.put(OpCode.delete, DeleteRequest::new);
        RECORDS.put(OpCode.deleteContainer, DeleteContainerRequest::new);
        RECORDS.put(OpCode.setData, SetDataRequest::new);
        RECORDS.put(OpCode.setACL, SetACLRequest::new);
        RECORDS.put(OpCode.reconfig, ReconfigRequest::new);
        RECORDS.put(OpCode.check, CheckVersionRequest::new);
        RECORDS.put(OpCode.multi, MultiOperationRecord::new);
    }

    private Readable() {
    }

    /** The request, or where it cannot be read an empty multi in its place, which fails with the same error. */
    static Request of(Request request) {
        Supplier<Record> record = RECORDS.get(request.type);
        if (record == null) {
            return request;
        }
        try {
            // Stock keeps what was read, so that nothing is read twice.
            request.readRequestRecord(record);
            return request;
        } catch (IOException | RuntimeException e) {
            LOG.warn("A request of session 0x{} cannot be read", Long.toHexString(request.sessionId), e);
        }
        return failing(request);
    }

    /** An empty multi in the place of a request: its client gets an answer. */
    static Request failing(Request request) {
        Request error = new Request(request.cnxn, request.sessionId, request.cxid, OpCode.multi, RequestRecord.fromBytes(new byte[0]),
            request.authInfo);
        error.setOwner(request.getOwner());
        error.setLocalSession(request.isLocalSession());
        return error;
    }
}
