import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Sends what no server sends to the election and quorum ports of running servers, over as many connections as it takes. Prints how
 * many inputs of each kind went out.
 *
 * <pre>java Fuzz.java SEED INPUTS ELECTION_PORT,ELECTION_PORT,... QUORUM_PORT BLACK_HOLE CONFIG</pre>
 *
 * The ports are those of servers 1, 2, ...; the quorum port is the leader's; BLACK_HOLE is an address that never answers; CONFIG
 * is the ensemble's own, as it stands in notifications. An input is a frame, a packet or an initial message. An input counts only
 * if the server read the last one of its connection: the server then closes it after this end does. Inputs that the server may
 * not have read, because it closed the connection before, are counted apart.
 */
final class Fuzz {

    /** Inputs between two looks at what the other side says; how many of them make a connection. */
    private static final int BURST = 100;
    private static final int BURSTS = 50;
    private static final int LEARNERS = 4;

    private final int[] election;
    private final int quorum;
    private final String blackHole;
    private final String config;
    private final long inputs;
    private final AtomicLong sent = new AtomicLong();
    private final Map<String, AtomicLong> counts = new ConcurrentSkipListMap<>();

    private Fuzz(String[] args) {
        inputs = Long.parseLong(args[1]);
        election = java.util.Arrays.stream(args[2].split(",")).mapToInt(Integer::parseInt).toArray();
        quorum = Integer.parseInt(args[3]);
        blackHole = args[4];
        config = args[5];
    }

    public static void main(String[] args) throws InterruptedException {
        Fuzz fuzz = new Fuzz(args);
        SplittableRandom seed = new SplittableRandom(Long.parseLong(args[0]));
        List<Thread> threads = new ArrayList<>();
        for (int server = 0; server < fuzz.election.length; server++) {
            int target = server;
            threads.add(fuzz.thread(seed.split(), random -> fuzz.votes(random, target)));
        }
        threads.add(fuzz.thread(seed.split(), fuzz::greetings));
        for (int learner = 0; learner < LEARNERS; learner++) {
            threads.add(fuzz.thread(seed.split(), fuzz::learner));
        }
        threads.add(fuzz.thread(seed.split(), fuzz::deafLearner));
        threads.add(fuzz.thread(seed.split(), fuzz::endless));
        threads.add(fuzz.thread(seed.split(), fuzz::slow));
        for (Thread thread : threads) {
            thread.join();
        }
        new TreeMap<>(fuzz.counts).forEach((kind, count) -> System.out.println(count + " " + kind));
    }

    private interface Attack {
        void run(SplittableRandom random) throws IOException, InterruptedException;
    }

    /** Repeats an attack until there were enough inputs; the server may close a connection at any time. */
    private Thread thread(SplittableRandom random, Attack attack) {
        Thread thread = new Thread(() -> {
            while (sent.get() < inputs) {
                try {
                    attack.run(random);
                } catch (IOException e) {
                    count("connections closed by the server", 1);
                } catch (InterruptedException e) {
                    return;
                }
            }
        });
        thread.start();
        return thread;
    }

    private void count(String kind, long more) {
        counts.computeIfAbsent(kind, k -> new AtomicLong()).addAndGet(more);
    }

    private void sent(String kind, long more) {
        count(kind, more);
        sent.addAndGet(more);
    }

    private static Socket connect(int port) throws IOException {
        Socket socket = new Socket();
        socket.setSoTimeout(2000);
        socket.connect(new InetSocketAddress("127.0.0.1", port), 2000);
        return socket;
    }

    /** Says the same to a server until it was enough or the server closes the connection; counts what it has read. */
    private void stream(String kind, Socket socket, int bursts, Burst burst) throws IOException, InterruptedException {
        long said = 0;
        try {
            for (int i = 0; i < bursts && sent.get() < inputs; i++) {
                socket.getOutputStream().write(burst.next().array());
                said += BURST;
                drain(socket.getInputStream());
            }
            socket.shutdownOutput();
            while (socket.getInputStream().read() >= 0) {
                // Until the server has read all of it, and ends too.
            }
            sent(kind, said);
        } catch (IOException e) {
            count(kind + ", perhaps unread", said);
            throw e;
        }
    }

    private interface Burst {
        Bytes next() throws InterruptedException;
    }

    private static void drain(InputStream in) throws IOException {
        for (int there = in.available(); there > 0; there = in.available()) {
            in.skip(there);
        }
    }

    // The election port.

    /** Notifications on one connection, in the name of a server that is known or not. */
    private void votes(SplittableRandom random, int target) throws IOException, InterruptedException {
        int higher = election.length - target - 1;
        boolean known = higher > 0 && random.nextBoolean();
        long sid = known ? target + 2 + random.nextInt(higher) : 1000 + random.nextInt(50);
        try (Socket socket = connect(election[target])) {
            Bytes hello = new Bytes().i64(-65536).i64(sid).text("127.0.0.1:1");
            socket.getOutputStream().write(hello.array());
            // In the name of a known server the real one is cut off meanwhile.
            stream("notifications from " + (known ? "known" : "unknown") + " servers", socket, known ? 1 : BURSTS, () -> {
                Bytes out = new Bytes();
                for (int n = 0; n < BURST; n++) {
                    byte[] vote = Inputs.vote(random, config);
                    // A length that lies ends the connection, so most do not.
                    boolean lie = random.nextInt(500 * BURST) == 0;
                    out.i32(lie ? Inputs.number(random) : vote.length).raw(vote);
                }
                return out;
            });
        }
    }

    /** Initial messages, each on a connection of its own. */
    private void greetings(SplittableRandom random) throws IOException, InterruptedException {
        try (Socket socket = connect(election[random.nextInt(election.length)])) {
            socket.getOutputStream().write(Inputs.greeting(random, blackHole));
            sent("initial messages", 1);
            if (random.nextBoolean()) {
                socket.setSoLinger(true, 0);
            }
            Thread.sleep(1);
        }
    }

    // The quorum port.

    /** A learner that comes as far as the leader lets it, and then says anything. */
    private void learner(SplittableRandom random) throws IOException, InterruptedException {
        try (Socket socket = connect(quorum)) {
            join(random, socket);
            stream("quorum packets", socket, BURSTS, () -> {
                Bytes out = new Bytes();
                for (int n = 0; n < BURST; n++) {
                    out.raw(Inputs.packet(random));
                }
                Thread.sleep(1);
                return out;
            });
        }
    }

    private void join(SplittableRandom random, Socket socket) throws IOException, InterruptedException {
        boolean observer = random.nextBoolean();
        // Real ones, some that are let in again and again, and ever new ones.
        int name = random.nextInt(4);
        long sid = name == 0 ? 1 + random.nextInt(election.length) : name < 3 ? 2000 + random.nextInt(100) : 3001 + random.nextInt(1 << 30);
        boolean honest = random.nextInt(4) != 0;
        // Mostly as a real one joins, or nothing behind the handshake would ever be reached.
        byte[] info = honest ? new Bytes().i64(sid).i32(0x10000).i64(0).array() : Inputs.garbage(random, 24);
        Bytes out = new Bytes().packet(observer ? 16 : 11, 0, info);
        byte[] epoch = honest ? new Bytes().i32(-1).array() : Inputs.garbage(random, 8);
        out.packet(18, honest ? 0 : random.nextLong(), epoch);
        out.packet(3, honest ? 0 : random.nextLong(), null);
        socket.getOutputStream().write(out.array());
        sent("quorum handshakes", 3);
        Thread.sleep(20);
    }

    /** Asks for answers and never reads them. */
    private void deafLearner(SplittableRandom random) throws IOException, InterruptedException {
        try (Socket socket = connect(quorum)) {
            socket.getOutputStream().write(new Bytes().packet(16, 0, new Bytes().i64(3000).i32(0x10000).i64(0).array())
                .packet(18, 0, new Bytes().i32(-1).array()).packet(3, 0, null).array());
            sent("quorum handshakes", 3);
            while (sent.get() < inputs) {
                Bytes out = new Bytes();
                for (int n = 0; n < BURST; n++) {
                    out.packet(6, 0, new Bytes().i64(random.nextLong()).i32(1000).array());
                }
                socket.getOutputStream().write(out.array());
                count("requests with unread answers", BURST);
                Thread.sleep(5);
            }
        }
    }

    /** One packet whose list of identities never ends, or is not long and each of them is. */
    private void endless(SplittableRandom random) throws IOException, InterruptedException {
        boolean many = random.nextBoolean();
        try (Socket socket = connect(quorum)) {
            socket.getOutputStream().write(new Bytes().i32(16).i64(0).i32(-1).i32(many ? Integer.MAX_VALUE : 5000).array());
            sent("packets without an end", 1);
            int identities = many ? 8192 : 1;
            Bytes next = new Bytes();
            for (int i = 0; i < 2 * identities; i++) {
                next.text(many ? "" : "x".repeat(1_000_000));
            }
            while (sent.get() < inputs) {
                socket.getOutputStream().write(next.array());
                count("identities in packets without an end", identities);
                Thread.sleep(20);
            }
        }
    }

    /** Connections that say a byte now and then, or nothing, on all ports. */
    private void slow(SplittableRandom random) throws IOException, InterruptedException {
        List<Socket> open = new ArrayList<>();
        try {
            for (int i = 0; i < 40; i++) {
                int which = random.nextInt(election.length + 1);
                open.add(connect(which < election.length ? election[which] : quorum));
            }
            sent("slow or silent connections", open.size());
            for (int i = 0; i < 20 && sent.get() < inputs; i++) {
                for (Socket socket : open) {
                    try {
                        socket.getOutputStream().write(0);
                    } catch (IOException e) {
                        count("slow connections closed by the server", 1);
                    }
                }
                Thread.sleep(500);
            }
        } finally {
            for (Socket socket : open) {
                socket.close();
            }
        }
    }
}
