package org.apache.zookeeper.server.quorum;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;

/** A message of ZooKeeper's client protocol: its length, then its fields. */
final class Frame {

    private Frame() {
    }

    interface Fields {
        void write(DataOutputStream out) throws IOException;
    }

    static byte[] of(Fields fields) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        fields.write(new DataOutputStream(bytes));
        return ByteBuffer.allocate(4 + bytes.size()).putInt(bytes.size()).put(bytes.toByteArray()).array();
    }
}
