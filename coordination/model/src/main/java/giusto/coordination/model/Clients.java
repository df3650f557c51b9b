package giusto.coordination.model;

import static giusto.coordination.model.State.*;

/** What clients see, and the laws: it is never contradicted, and every leader that begins to serve has all of it. */
final class Clients {

    /** Where a law is broken: how. */
    static final class Broken extends RuntimeException {
        private static final long serialVersionUID = 1L;

        Broken(String law) {
            super(law, null, false, false);
        }
    }

    private Clients() {
    }

    static void serves(State t, int leader) {
        int n = t.get(leader, LENGTH);
        if (n < t.f[SEEN_LENGTH]) {
            throw new Broken("a leader serves without what a client has seen");
        }
        commits(t, leader, n);
    }

    static void commits(State t, int leader, int length) {
        for (int i = 0; i < length; i++) {
            if (i < t.f[SEEN_LENGTH] && t.f[SEEN + i] != t.log(leader, i)) {
                throw new Broken("a commit contradicts what a client has seen");
            }
        }
        for (int i = t.f[SEEN_LENGTH]; i < length; i++) {
            t.f[SEEN + i] = (byte) t.log(leader, i);
        }
        t.f[SEEN_LENGTH] = (byte) Math.max(t.f[SEEN_LENGTH], length);
    }

    static void agrees(State t, int follower) {
        int n = Math.min(t.get(follower, LENGTH), t.f[SEEN_LENGTH]);
        for (int i = 0; i < n; i++) {
            if (t.f[SEEN + i] != t.log(follower, i)) {
                throw new Broken("a follower serves what contradicts what a client has seen");
            }
        }
    }
}
