import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.ByteArrayOutputStream;

/** Numbers and texts as ZooKeeper writes them. */
final class Bytes {

    private final ByteArrayOutputStream out = new ByteArrayOutputStream();

    Bytes i32(int value) {
        for (int shift = 24; shift >= 0; shift -= 8) {
            out.write(value >>> shift);
        }
        return this;
    }

    Bytes i64(long value) {
        return i32((int) (value >>> 32)).i32((int) value);
    }

    Bytes raw(byte[] bytes) {
        out.writeBytes(bytes);
        return this;
    }

    Bytes text(String text) {
        byte[] bytes = text.getBytes(UTF_8);
        return i32(bytes.length).raw(bytes);
    }

    /** A quorum packet without identities. */
    Bytes packet(int type, long zxid, byte[] data) {
        i32(type).i64(zxid);
        return (data == null ? i32(-1) : i32(data.length).raw(data)).i32(-1);
    }

    byte[] array() {
        return out.toByteArray();
    }
}
