package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.zookeeper.server.quorum.QuorumPeer.ServerState;
import org.apache.zookeeper.server.quorum.QuorumPeer.ZabState;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Recoveries in small, before the server starts: three servers in this process, on loopback and in a temporary directory, whose
 * leader is shut down several times while a client writes. A server's first recovery then finds classes loaded, lambdas linked
 * and what is called often compiled; otherwise most of its time is spent on these.
 *
 * <p>Nothing of it reaches the real server: no file, no metric, no log line, no bean. Where it does not succeed, the server
 * starts without.
 */
final class Rehearsal {

    private static final Logger LOG = LoggerFactory.getLogger(Rehearsal.class);
    private static final int SERVERS = 3;
    private static final int TIMES = 2;
    private static final long POLL_MS = 3;
    /** For a server that was told to end; its thread is a daemon. */
    private static final long JOIN_MS = 3000;

    private final Settings settings;
    private final Path directory;
    private final long longestNs;
    private final List<Integer> ports;
    private final Player[] players = new Player[SERVERS];

    private Rehearsal(Settings settings, Path directory, long longestNs) throws IOException {
        this.settings = settings;
        this.directory = directory;
        this.longestNs = longestNs;
        this.ports = ports(3 * SERVERS);
    }

    /**
     * How many recoveries were played.
     *
     * @param scratch where a directory may be made for the time of it
     * @param longestNs when no other is begun, and how long a single step may take
     */
    static int play(Settings settings, Path scratch, long longestNs) {
        int played = 0;
        Exception failure = null;
        Aside aside = new Aside();
        try {
            Path directory = Files.createTempDirectory(scratch, "giusto-rehearsal-");
            try {
                played = new Rehearsal(settings, directory, longestNs).play();
            } finally {
                delete(directory);
            }
        } catch (IOException | RuntimeException e) {
            failure = e;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        } finally {
            aside.end();
        }
        if (played == 0) {
            LOG.warn("No recovery was rehearsed: the first one may take longer", failure);
        }
        return played;
    }

    private int play() throws IOException, InterruptedException {
        long end = System.nanoTime() + longestNs;
        int played = 0;
        try {
            for (int i = 0; i < SERVERS; i++) {
                start(i);
            }
            boolean going = await(() -> leader() >= 0 && serving() == SERVERS) && await(this::write);
            while (going && played < TIMES && System.nanoTime() < end) {
                int leader = leader();
                players[leader].end();
                going = await(this::write);
                start(leader);
                going = going && await(() -> leader() >= 0 && serving() == SERVERS);
                played++;
            }
        } finally {
            for (Player player : players) {
                if (player != null) {
                    player.end();
                }
            }
        }
        return played;
    }

    private interface Condition {
        boolean holds() throws IOException;
    }

    private boolean await(Condition condition) throws IOException, InterruptedException {
        long end = System.nanoTime() + longestNs;
        while (!condition.holds()) {
            if (System.nanoTime() >= end) {
                return false;
            }
            Thread.sleep(POLL_MS);
        }
        return true;
    }

    /** One of the servers, in a thread of its own. */
    private static final class Player extends Runner {

        private final Thread thread;

        Player(Settings settings, QuorumPeerConfig config) {
            super(settings);
            thread = new Thread(() -> {
                try {
                    runFromConfig(config);
                } catch (Exception e) {
                    LOG.warn("A rehearsal's server ended", e);
                }
            }, "giusto-rehearsal");
            thread.setDaemon(true);
            thread.start();
        }

        boolean leads() {
            QuorumPeer peer = quorumPeer;
            return peer != null && peer.getPeerState() == ServerState.LEADING;
        }

        boolean serves() {
            QuorumPeer peer = quorumPeer;
            return peer != null && peer.getZabState() == ZabState.BROADCAST;
        }

        void end() throws InterruptedException {
            close();
            thread.join(JOIN_MS);
        }
    }

    private int leader() {
        for (int i = 0; i < SERVERS; i++) {
            if (players[i].leads()) {
                return i;
            }
        }
        return -1;
    }

    private long serving() {
        return Stream.of(players).filter(Player::serves).count();
    }

    private void start(int i) throws IOException {
        Path data = Files.createDirectories(directory.resolve("s" + i));
        Files.write(data.resolve("myid"), Integer.toString(i + 1).getBytes(UTF_8));
        List<String> lines = new ArrayList<>(List.of("dataDir=" + data, "clientPortAddress=127.0.0.1", "clientPort=" + ports.get(i),
            "tickTime=500", "initLimit=10", "syncLimit=10", Aside.ADMIN + "=false"));
        for (int s = 0; s < SERVERS; s++) {
            lines.add("server." + (s + 1) + "=127.0.0.1:" + ports.get(SERVERS + s) + ":" + ports.get(2 * SERVERS + s));
        }
        Path file = Files.write(data.resolve("zoo.cfg"), lines);
        QuorumPeerConfig config = new QuorumPeerConfig();
        try {
            config.parse(file.toString());
        } catch (QuorumPeerConfig.ConfigException e) {
            throw new IOException(e);
        }
        players[i] = new Player(settings, config);
    }

    /** A session and a write at the first server that takes them. */
    private boolean write() {
        for (int i = 0; i < SERVERS; i++) {
            try {
                if (write(ports.get(i))) {
                    return true;
                }
            } catch (IOException e) {
                LOG.debug("Not yet", e);
            }
        }
        return false;
    }

    private static boolean write(int port) throws IOException {
        try (Socket socket = new Socket()) {
            socket.connect(new InetSocketAddress(InetAddress.getLoopbackAddress(), port), 100);
            socket.setTcpNoDelay(true);
            socket.setSoTimeout(500);
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            DataInputStream in = new DataInputStream(socket.getInputStream());
            // ConnectRequest: no zxid seen, 4 s, no session, a password of 16 bytes, not read-only.
            out.write(Frame.of(f -> {
                f.writeInt(0);
                f.writeLong(0);
                f.writeInt(4000);
                f.writeLong(0);
                f.writeInt(16);
                f.write(new byte[17]);
            }));
            in.readNBytes(in.readInt());
            // A write of the root, in any version.
            out.write(Frame.of(f -> {
                f.writeInt(1);
                f.writeInt(5);
                f.writeInt(1);
                f.writeBytes("/");
                f.writeInt(1);
                f.writeBytes("x");
                f.writeInt(-1);
            }));
            byte[] reply = in.readNBytes(in.readInt());
            return reply.length >= 16 && reply[12] == 0 && reply[13] == 0 && reply[14] == 0 && reply[15] == 0;
        }
    }

    private static List<Integer> ports(int count) throws IOException {
        List<ServerSocket> sockets = new ArrayList<>();
        try {
            for (int i = 0; i < count; i++) {
                sockets.add(new ServerSocket(0, 1, InetAddress.getLoopbackAddress()));
            }
            return sockets.stream().map(ServerSocket::getLocalPort).collect(Collectors.toList());
        } finally {
            for (ServerSocket socket : sockets) {
                socket.close();
            }
        }
    }

    private static void delete(Path directory) throws IOException {
        try (Stream<Path> all = Files.walk(directory)) {
            for (Path path : all.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.deleteIfExists(path);
            }
        }
    }
}
