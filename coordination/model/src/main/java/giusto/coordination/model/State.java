package giusto.coordination.model;

import java.util.Arrays;

/**
 * Three servers, what their disks hold, and what clients have seen. One byte a field, so that millions fit.
 *
 * <p>A server's history is a list of transactions, each a number given when it was proposed; {@code epochOf} has its epoch. Its
 * zxid is its epoch and its place among those of that epoch in the history, so two transactions can have one zxid.
 */
final class State {

    static final int SERVERS = 3;
    static final int MAX_TXNS = 3;

    // Fields of a server.
    static final int ROLE = 0;
    static final int PHASE = 1;
    static final int LEADER = 2;
    static final int EPOCH = 3;
    static final int ACCEPTED = 4;
    static final int CURRENT = 5;
    static final int DISK_ACCEPTED = 6;
    static final int DISK_CURRENT = 7;
    static final int TO_RESERVE = 8;
    static final int TO_SETTLE = 9;
    static final int UNWRITTEN_CURRENT = 10;
    static final int STAGED = 11;
    static final int LENGTH = 12;
    static final int LOG = 13;
    /** How much of the history is on disk, where that is not all of it (only with a fault). */
    static final int DURABLE = LOG + MAX_TXNS;
    static final int WIDTH = DURABLE + 1;

    // Fields of all.
    static final int SEEN_LENGTH = SERVERS * WIDTH;
    static final int SEEN = SEEN_LENGTH + 1;
    static final int PROPOSED = SEEN + MAX_TXNS;
    static final int EPOCH_OF = PROPOSED + 1;
    static final int LOSSES = EPOCH_OF + MAX_TXNS + 1;
    static final int SIZE = LOSSES + 1;

    // Roles.
    static final int LOOKING = 0;
    static final int LEADING = 1;
    static final int FOLLOWING = 2;
    /** Refuses to start, or (TABLE) has not read a quorum's epochs yet. */
    static final int DOWN = 3;

    final byte[] f;

    State(byte[] fields) {
        f = fields;
    }

    State copy() {
        return new State(f.clone());
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof State && Arrays.equals(f, ((State) other).f);
    }

    @Override
    public int hashCode() {
        return Arrays.hashCode(f);
    }

    int get(int server, int field) {
        return f[server * WIDTH + field];
    }

    void set(int server, int field, int value) {
        f[server * WIDTH + field] = (byte) value;
    }

    int epochOf(int txn) {
        return f[EPOCH_OF + txn];
    }

    int log(int server, int place) {
        return get(server, LOG + place);
    }

    /** (epoch, count) of a history's last transaction as one number. */
    int lastZxid(int server, int length) {
        if (length == 0) {
            return 0;
        }
        int epoch = epochOf(log(server, length - 1));
        int count = 0;
        for (int i = 0; i < length; i++) {
            count += epochOf(log(server, i)) == epoch ? 1 : 0;
        }
        return epoch * 16 + count;
    }

    int lastZxid(int server) {
        return lastZxid(server, get(server, LENGTH));
    }

    void append(int server, int txn) {
        int n = get(server, LENGTH);
        set(server, LOG + n, txn);
        set(server, LENGTH, n + 1);
    }

    void truncate(int server, int length) {
        for (int i = length; i < MAX_TXNS; i++) {
            set(server, LOG + i, 0);
        }
        set(server, LENGTH, length);
    }

    /**
     * The same state with servers named otherwise, one and the same for all that differ only in names: servers sorted by what
     * they are, and where two are alike but for whom they follow, the order that sorts first.
     */
    State canonical() {
        byte[] best = null;
        for (int[] order : ORDERS) {
            int first = compare(order[0], order[1]);
            int second = compare(order[1], order[2]);
            if (first > 0 || second > 0) {
                continue;
            }
            byte[] g = f.clone();
            for (int place = 0; place < SERVERS; place++) {
                int s = order[place];
                System.arraycopy(f, s * WIDTH, g, place * WIDTH, WIDTH);
                if (get(s, ROLE) == FOLLOWING) {
                    int leader = get(s, LEADER);
                    g[place * WIDTH + LEADER] = (byte) (order[0] == leader ? 0 : order[1] == leader ? 1 : 2);
                }
            }
            if (best == null || Arrays.compare(g, best) < 0) {
                best = g;
            }
            if (first < 0 && second < 0) {
                break;
            }
        }
        return new State(best);
    }

    /** Two servers by everything but whom they follow. */
    private int compare(int a, int b) {
        int before = Arrays.compare(f, a * WIDTH, a * WIDTH + LEADER, f, b * WIDTH, b * WIDTH + LEADER);
        return before != 0 ? before
            : Arrays.compare(f, a * WIDTH + LEADER + 1, (a + 1) * WIDTH, f, b * WIDTH + LEADER + 1, (b + 1) * WIDTH);
    }

    private static final int[][] ORDERS = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
}
