package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.apache.jute.BinaryOutputArchive;
import org.apache.zookeeper.data.Id;
import org.junit.jupiter.api.Test;

/** Stock writes the packets; what may pass passes unchanged, however it is cut into pieces. */
class PacketGuardTest {

    private static byte[] packets(Random random, int count, int identities) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        BinaryOutputArchive out = BinaryOutputArchive.getArchive(bytes);
        for (int i = 0; i < count; i++) {
            byte[] data = random.nextInt(4) == 0 ? null : new byte[random.nextInt(300)];
            List<Id> ids = random.nextBoolean() && identities < 3 ? null
                : new ArrayList<>(Collections.nCopies(identities, new Id(random.nextBoolean() ? "world" : "", "anyone")));
            out.writeRecord(new QuorumPacket(random.nextInt(20), random.nextLong(), data, ids), "packet");
        }
        return bytes.toByteArray();
    }

    private static InputStream pieces(Random random, byte[] bytes) {
        return new ByteArrayInputStream(bytes) {
            @Override
            public synchronized int read(byte[] into, int offset, int length) {
                return super.read(into, offset, Math.min(length, 1 + random.nextInt(7)));
            }
        };
    }

    @Test
    void whatStockWritesPassesUnchanged() throws IOException {
        Random random = new Random(1);
        for (int i = 0; i < 200; i++) {
            byte[] bytes = packets(random, 20, random.nextInt(5));
            assertArrayEquals(bytes, new PacketGuard(pieces(random, bytes)).readAllBytes());
        }
        byte[] many = packets(random, 3, PacketGuard.IDENTITIES);
        assertArrayEquals(many, new PacketGuard(new ByteArrayInputStream(many)).readAllBytes());
    }

    @Test
    void tooManyIdentitiesAreRefusedWhereverTheyAre() throws IOException {
        Random random = new Random(2);
        for (int i = 0; i < 50; i++) {
            byte[] good = packets(random, random.nextInt(20), 2);
            byte[] bad = packets(random, 1, PacketGuard.IDENTITIES + 1);
            DataInputStream in = new DataInputStream(new PacketGuard(pieces(random, concat(good, bad))));
            in.readFully(new byte[good.length]);
            assertThrows(IOException.class, in::readAllBytes);
        }
    }

    @Test
    void textsTogetherAreBounded() throws IOException {
        for (int texts : new int[] {2, 4, 1000}) {
            byte[] most = packet(texts / 2, PacketGuard.TEXTS / texts);
            byte[] two = concat(most, most);
            assertArrayEquals(two, new PacketGuard(new ByteArrayInputStream(two)).readAllBytes());
            byte[] bad = concat(most, packet(texts / 2, PacketGuard.TEXTS / texts + 1));
            DataInputStream in = new DataInputStream(new PacketGuard(new ByteArrayInputStream(bad)));
            in.readFully(new byte[most.length]);
            assertThrows(IOException.class, in::readAllBytes, texts + " texts");
        }
    }

    private static byte[] packet(int identities, int length) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        Id id = new Id("x".repeat(length), "y".repeat(length));
        BinaryOutputArchive.getArchive(bytes).writeRecord(new QuorumPacket(Leader.PING, 0, null, Collections.nCopies(identities, id)), "packet");
        return bytes.toByteArray();
    }

    private static byte[] concat(byte[] a, byte[] b) throws IOException {
        ByteArrayOutputStream both = new ByteArrayOutputStream();
        both.write(a);
        both.write(b);
        return both.toByteArray();
    }

    @Test
    void theLeaderIsToldWhichHeartbeatsAreAnswered() throws IOException {
        Random random = new Random(5);
        for (int run = 0; run < 200; run++) {
            byte[] bytes = packets(random, 20, 2);
            List<Long> expected = new ArrayList<>();
            var in = org.apache.jute.BinaryInputArchive.getArchive(new ByteArrayInputStream(bytes));
            for (int i = 0; i < 20; i++) {
                QuorumPacket packet = new QuorumPacket();
                in.readRecord(packet, "packet");
                if (packet.getType() == Leader.PING) {
                    expected.add(packet.getZxid());
                }
            }
            List<Long> found = new ArrayList<>();
            new PacketGuard(pieces(random, bytes), found::add).readAllBytes();
            org.junit.jupiter.api.Assertions.assertEquals(expected, found);
        }
    }
}
