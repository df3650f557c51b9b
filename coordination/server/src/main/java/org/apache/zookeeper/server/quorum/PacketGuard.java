package org.apache.zookeeper.server.quorum;

import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.function.LongConsumer;

/**
 * What a learner sends, and nothing that fills the leader's memory: stock reads as many identities in a packet as it announces, each of
 * any length up to 2 MB. A
 * QuorumPacket is type, zxid, data with their length, and the number of identities, each of two texts with their length.
 */
final class PacketGuard extends FilterInputStream {

    /** A client of a learner has one identity for each way in which it proved who it is. */
    static final int IDENTITIES = 10_000;
    /** Bytes of all texts of a packet: 400 for each of so many identities. */
    static final int TEXTS = 4_000_000;
    private static final int HEADER = 12;

    private enum Part { HEADER, DATA_LENGTH, DATA, IDENTITIES, TEXT_LENGTH, TEXT }

    private Part part = Part.HEADER;
    /** Bytes of this part that are still to come. */
    private int left = HEADER;
    private int number;
    /** Texts of this packet that are still to come, and what those that came have together. */
    private int texts;
    private long textBytes;

    /** Of this packet. */
    private int type;
    private long zxid;
    private final LongConsumer answers;

    /** @param answers is told the zxid of each answer to a heartbeat, which is that of the heartbeat */
    PacketGuard(InputStream in, LongConsumer answers) {
        super(in);
        this.answers = answers;
    }

    PacketGuard(InputStream in) {
        this(in, zxid -> { });
    }

    @Override
    public int read() throws IOException {
        byte[] one = new byte[1];
        return read(one, 0, 1) < 0 ? -1 : one[0] & 0xff;
    }

    @Override
    public int read(byte[] bytes, int offset, int length) throws IOException {
        int count = super.read(bytes, offset, length);
        for (int i = 0; i < count;) {
            int step = Math.min(left, count - i);
            if (part == Part.DATA_LENGTH || part == Part.IDENTITIES || part == Part.TEXT_LENGTH) {
                for (int j = i; j < i + step; j++) {
                    number = number << 8 | bytes[offset + j] & 0xff;
                }
            }
            if (part == Part.HEADER) {
                for (int j = i; j < i + step; j++) {
                    // Type, then zxid: what is shifted out of the one is the other's no more.
                    boolean first = HEADER - left + j - i < Integer.BYTES;
                    type = first ? type << 8 | bytes[offset + j] & 0xff : type;
                    zxid = first ? 0 : zxid << 8 | bytes[offset + j] & 0xff;
                }
            }
            i += step;
            left -= step;
            while (left == 0) {
                next();
            }
        }
        return count;
    }

    /** The part that follows one that has ended. A length that is wrong is for stock's reader to refuse. */
    private void next() throws IOException {
        int value = Math.max(0, number);
        number = 0;
        switch (part) {
        case HEADER:
            if (type == Leader.PING) {
                answers.accept(zxid);
            }
            enter(Part.DATA_LENGTH, Integer.BYTES);
            break;
        case DATA_LENGTH:
            enter(Part.DATA, value);
            break;
        case DATA:
            enter(Part.IDENTITIES, Integer.BYTES);
            break;
        case IDENTITIES:
            if (value > IDENTITIES) {
                throw new IOException("a packet with " + value + " identities");
            }
            texts = 2 * value;
            textBytes = 0;
            text();
            break;
        case TEXT_LENGTH:
            textBytes += value;
            if (textBytes > TEXTS) {
                throw new IOException("a packet with identities of more than " + TEXTS + " bytes");
            }
            enter(Part.TEXT, value);
            break;
        default:
            text();
        }
    }

    private void text() {
        if (texts-- > 0) {
            enter(Part.TEXT_LENGTH, Integer.BYTES);
        } else {
            enter(Part.HEADER, HEADER);
        }
    }

    private void enter(Part entered, int bytes) {
        part = entered;
        left = bytes;
    }
}
