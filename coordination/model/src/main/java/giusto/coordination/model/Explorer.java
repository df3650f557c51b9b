package giusto.coordination.model;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/**
 * Visits every state that can be reached, nearest first, so that a broken law comes with a shortest history.
 *
 * <p>States that differ only in the servers' names count as one. Visited states are kept whole, in blocks; no hashing away.
 */
final class Explorer {

    /** What was found within the bounds. */
    static final class Result {
        long states;
        long steps;
        int depth;
        /** The law that is broken, or null; and the steps that break it. */
        String broken;
        List<String> history = List.of();
        /** Whether all states were visited. */
        boolean complete;
    }

    private static final int BLOCK = 1 << 16;

    private final List<byte[]> blocks = new ArrayList<>();
    private int count;
    private int[] table = new int[1 << 16];
    private int[] parents = new int[1 << 16];
    private final Model model;
    private final int most;

    Explorer(Model model, int most) {
        this.model = model;
        this.most = most;
    }

    Result run(State first) {
        Result r = new Result();
        add(first.canonical().f, -1);
        int[] level = {1};
        State[] at = new State[1];
        int[] index = {0};
        String[] step = {null};
        try {
            for (; index[0] < count && count < most; index[0]++) {
                if (index[0] == level[0]) {
                    level[0] = count;
                    r.depth++;
                }
                at[0] = state(index[0]);
                model.next(at[0], (name, next) -> {
                    r.steps++;
                    step[0] = name;
                    add(next.canonical().f, index[0]);
                });
            }
            r.complete = index[0] == count;
        } catch (Clients.Broken e) {
            r.broken = e.getMessage();
            r.history = history(index[0], e);
        }
        r.states = count;
        return r;
    }

    /** Adds a state unless it is there. */
    private void add(byte[] f, int parent) {
        if (count * 2 > table.length) {
            grow();
        }
        int slot = find(f);
        if (table[slot] != 0) {
            return;
        }
        if (count % BLOCK == 0) {
            blocks.add(new byte[BLOCK * State.SIZE]);
        }
        System.arraycopy(f, 0, blocks.get(count / BLOCK), count % BLOCK * State.SIZE, State.SIZE);
        if (count == parents.length) {
            parents = Arrays.copyOf(parents, count * 2);
        }
        parents[count] = parent;
        table[slot] = ++count;
    }

    private int find(byte[] f) {
        int h = Arrays.hashCode(f) * 0x9E3779B9;
        int slot = (h ^ h >>> 15) & table.length - 1;
        while (table[slot] != 0 && !same(table[slot] - 1, f)) {
            slot = slot + 1 & table.length - 1;
        }
        return slot;
    }

    private boolean same(int i, byte[] f) {
        int from = i % BLOCK * State.SIZE;
        return Arrays.equals(blocks.get(i / BLOCK), from, from + State.SIZE, f, 0, State.SIZE);
    }

    private void grow() {
        table = new int[table.length * 2];
        for (int i = 0; i < count; i++) {
            table[find(state(i).f)] = i + 1;
        }
    }

    private State state(int i) {
        int from = i % BLOCK * State.SIZE;
        return new State(Arrays.copyOfRange(blocks.get(i / BLOCK), from, from + State.SIZE));
    }

    /**
     * The steps to a state and one more that breaks the law. Names of servers are those of one run: every state is searched for
     * among the successors of the real one before it, up to names.
     */
    private List<String> history(int last, Clients.Broken broken) {
        List<Integer> path = new ArrayList<>();
        for (int i = last; i >= 0; i = parents[i]) {
            path.add(i);
        }
        Collections.reverse(path);
        List<String> names = new ArrayList<>();
        State[] now = {state(path.get(0))};
        for (int i : path.subList(1, path.size())) {
            byte[] wanted = state(i).f;
            State[] found = {null};
            String[] name = {null};
            try {
                model.next(now[0], (n, next) -> {
                    if (found[0] == null && Arrays.equals(next.canonical().f, wanted)) {
                        found[0] = next;
                        name[0] = n;
                    }
                });
            } catch (Clients.Broken e) {
                // A law is broken on the way as well; the state wanted came before it.
            }
            if (found[0] == null) {
                throw new IllegalStateException("a state has no way to it");
            }
            names.add(name[0]);
            now[0] = found[0];
        }
        names.add(broken.getMessage());
        return names;
    }
}
