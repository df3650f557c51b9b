import static java.nio.charset.StandardCharsets.UTF_8;

import java.util.SplittableRandom;

/** What a stranger, a broken server or a bad network could say: mostly nearly right. */
final class Inputs {

    private static final int[] NUMBERS = {-1, 0, 1, 2, 3, 28, 40, 44, 1000, 0x7fff, 0x10000, 512 * 1024, 512 * 1024 + 1, 0xfffff,
        Integer.MAX_VALUE, Integer.MIN_VALUE};
    private static final String[] CONFIGS = {"", "version=", "version=zz", "version=7fffffffffffffff", "server.1=", "server.x=a:1:2",
        "server.=:::", "server.1=a:99999:1:participant;2", "server.1=127.0.0.1:1:2:observer", "group.1=1:2", "weight.1=x", "\\u12",
        "\\uzzzz=1", "server.1=[::1", "nothing=at all", "server.9=h:1:2:participant;3\nversion=ffff"};
    private static final String[] ADDRESSES = {"127.0.0.1:1", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:x", "a:b:c", ":1", ":", "|", "||",
        "[::1", "[::1]:", "[::1]:1", "[]", "127.0.0.1:1|127.0.0.1:2", "127.0.0.1:1|", "0.0.0.0:5", "\u0000", "127.0.0.1"};

    private Inputs() {
    }

    static int number(SplittableRandom random) {
        return random.nextInt(4) == 0 ? random.nextInt() : NUMBERS[random.nextInt(NUMBERS.length)];
    }

    private static long large(SplittableRandom random) {
        switch (random.nextInt(4)) {
        case 0: return random.nextLong();
        case 1: return Long.MAX_VALUE - random.nextInt(3);
        case 2: return (long) random.nextInt(10) << 32 | random.nextInt(1000);
        default: return random.nextInt(10);
        }
    }

    static byte[] garbage(SplittableRandom random, int most) {
        byte[] bytes = new byte[random.nextInt(most + 1)];
        random.nextBytes(bytes);
        return bytes;
    }

    /** A notification; of each eight one is of an old length, one is cut, and in one some bytes are wrong. */
    static byte[] vote(SplittableRandom random, String config) {
        int state = random.nextInt(16) == 0 ? number(random) : random.nextInt(4);
        long leader = random.nextInt(4) == 0 ? large(random) : 1 + random.nextInt(3);
        Bytes out = new Bytes().i32(state).i64(leader).i64(large(random)).i64(large(random));
        int kind = random.nextInt(8);
        if (kind == 0) {
            return random.nextBoolean() ? out.array() : out.i64(large(random)).array();
        }
        out.i64(large(random)).i32(random.nextInt(8) == 0 ? number(random) : 2);
        byte[] text = (random.nextInt(4) == 0 ? CONFIGS[random.nextInt(CONFIGS.length)] : config).getBytes(UTF_8);
        out.i32(random.nextInt(16) == 0 ? number(random) : text.length).raw(text);
        byte[] bytes = out.array();
        if (kind == 1) {
            return java.util.Arrays.copyOf(bytes, 1 + random.nextInt(bytes.length));
        }
        for (int i = kind == 2 ? 1 + random.nextInt(4) : 0; i > 0; i--) {
            bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
        }
        return bytes;
    }

    /**
     * What a server says first on the election port: a version, who it is, and where it can be reached. Servers connect to those with lower
     * numbers than theirs; a connection to the address blackHole is never answered.
     */
    static byte[] greeting(SplittableRandom random, String blackHole) {
        int kind = random.nextInt(10);
        if (kind == 0) {
            return garbage(random, 64);
        }
        if (kind == 1) {
            // As servers before 3.5.
            return new Bytes().i64(random.nextInt(2) == 0 ? random.nextInt(1 << 30) : 4).array();
        }
        long version = kind == 2 ? random.nextLong() : -65536 + random.nextInt(2);
        long sid = random.nextInt(8) == 0 ? random.nextInt(5) - 1 : random.nextLong() >>> 1 + random.nextInt(40);
        if (kind == 3) {
            return new Bytes().i64(-65536).i64(-2 - (random.nextLong() >>> 1)).text(blackHole).array();
        }
        byte[] text = (random.nextInt(8) == 0 ? new String(garbage(random, 40), UTF_8) : ADDRESSES[random.nextInt(ADDRESSES.length)])
            .getBytes(UTF_8);
        return new Bytes().i64(version).i64(sid).i32(random.nextInt(8) == 0 ? number(random) : text.length).raw(text).array();
    }

    /** A packet of a learner: ACK, PING, REVALIDATE, REQUEST, or one that only a leader sends, or none at all. */
    static byte[] packet(SplittableRandom random) {
        int[] types = {3, 3, 5, 5, 6, 11, 18, number(random)};
        // Requests that can be read are work, however senseless: too many would be load, and no fuzzing.
        int type = random.nextInt(50) == 0 ? 1 : types[random.nextInt(types.length)];
        byte[] data;
        if (type == 1) {
            int operation = random.nextInt(4) == 0 ? number(random) : random.nextInt(36) - 12;
            // The request is garbage, and its session does not exist.
            data = new Bytes().i64(random.nextLong()).i32(random.nextInt()).i32(operation).raw(garbage(random, 40)).array();
        } else if (type == 5 || type == 6) {
            data = new Bytes().i64(random.nextLong()).i32(random.nextInt(30_000)).array();
        } else {
            data = garbage(random, 40);
        }
        // Data that is missing or too short ends the connection, so most is long enough.
        if (random.nextInt(20_000) == 0) {
            data = random.nextBoolean() ? null : garbage(random, 10);
        }
        byte[] bytes = new Bytes().packet(type, large(random), data).array();
        if (random.nextInt(50_000) == 0) {
            bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
        }
        return bytes;
    }
}
