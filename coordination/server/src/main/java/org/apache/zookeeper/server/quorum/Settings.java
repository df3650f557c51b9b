package org.apache.zookeeper.server.quorum;

import java.util.Arrays;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;

/**
 * The {@code giusto.*} properties, read once and checked before anything starts.
 *
 * <p>They stand in zoo.cfg, where ZooKeeper keeps every key it does not know as a system property {@code zookeeper.KEY}, or on
 * the command line as {@code -DKEY}. So the same zoo.cfg also starts a stock server, which ignores them.
 */
final class Settings {

    /** What is done beyond stock ZooKeeper; all of it unless {@code giusto.features} names less. */
    enum Feature {
        /** Fast convergence of the leader election [LiH21, section 5.2.2]. */
        FCLE,
        /** The leader tells when its socket is bound [LiH21, section 5.2.3]. */
        FQCE,
        /** No wait when every voter but the lost leader agrees. */
        UNANIMOUS,
        /** A new leader takes its snapshot after it serves, not before. */
        SNAPSHOT,
        /** The classes of a recovery are loaded at start. */
        WARM,
        /** Recoveries are rehearsed before the server starts. */
        REHEARSE
    }

    /** Wrong settings: the text names the key, what is wrong and what to write instead. */
    static final class Wrong extends IllegalArgumentException {
        private static final long serialVersionUID = 1L;

        Wrong(String text) {
            super(text);
        }
    }

    static final String PREFIX = "giusto.";
    static final String EPOCHS = "giusto.epochs";
    static final String ACCEPT = "giusto.epochs.accept";
    static final String ACCEPTED = "acknowledged-writes-may-be-lost";
    static final String WAIT = "giusto.wait";
    static final String JITTER = "giusto.jitter";
    static final String DELAY = "giusto.delay";
    static final String MARGIN = "giusto.margin";
    static final String STEP_DOWN = "giusto.step-down";
    static final String FEATURES = "giusto.features";
    static final String ZOOKEEPER = "giusto.zookeeper";
    private static final List<String> KEYS = List.of(EPOCHS, ACCEPT, WAIT, JITTER, DELAY, MARGIN, STEP_DOWN, FEATURES, ZOOKEEPER);
    /** The ZooKeepers whose classes ours are made for: tests/coordination.sh starts servers of each. */
    static final List<String> KNOWN = List.of("3.9.4", "3.9.5", "3.9.6");

    /** Stock's finalizeWait: no wait of ours is longer. */
    static final long STOCK_WAIT_NS = TimeUnit.MILLISECONDS.toNanos(FastLeaderElection.finalizeWait);

    private static final long LONGEST_NS = TimeUnit.SECONDS.toNanos(1000);

    final EpochStore.Mode epochs;
    /** The fixed wait w in ns, or 0 where it is measured. */
    final long waitNs;
    /** j, d and the margin in ns: what the wait is made of until measurements replace j and d. */
    final long jitterNs;
    final long delayNs;
    final long marginNs;
    /** A leader steps down where no quorum has answered for so long; 0: nothing is written. */
    private final long stepDownNs;
    final Set<Feature> features;
    /** The ZooKeeper that is taken though we do not know it; null: none. */
    private final String accepted;

    private Settings(Map<String, String> given) {
        epochs = epochs(given);
        String wait = given.getOrDefault(WAIT, "adaptive");
        waitNs = wait.equals("adaptive") ? 0 : duration(WAIT, wait);
        // [LiH21, section 5.4]: j = 13 ms and d = 3 ms measured, w = 20 ms chosen.
        jitterNs = duration(JITTER, given.getOrDefault(JITTER, "13ms"));
        delayNs = duration(DELAY, given.getOrDefault(DELAY, "3ms"));
        marginNs = duration(MARGIN, given.getOrDefault(MARGIN, "4ms"));
        if (waitNs > 0 && waitNs <= jitterNs + delayNs && (given.containsKey(JITTER) || given.containsKey(DELAY))) {
            throw new Wrong(WAIT + " = " + wait + " is not longer than " + JITTER + " + " + DELAY
                + ": servers would elect before all votes are in; write a longer wait or 'adaptive'");
        }
        if (waitNs == 0 && jitterNs + delayNs + marginNs > STOCK_WAIT_NS) {
            throw new Wrong(JITTER + " + " + DELAY + " + " + MARGIN + " is more than the 200ms that stock ZooKeeper waits");
        }
        stepDownNs = given.containsKey(STEP_DOWN) ? duration(STEP_DOWN, given.get(STEP_DOWN), LONGEST_NS, "1000s") : 0;
        features = features(given.get(FEATURES));
        accepted = given.get(ZOOKEEPER);
    }

    /**
     * How long a leader that no quorum answers goes on, in ns: less than its followers wait, syncLimit ticks. Half a tick less
     * where nothing is written; 0, which leaves it to stock's timeouts, where that is less than a tick.
     */
    long stepDownNs(int tickMs, int syncLimit) {
        long tickNs = TimeUnit.MILLISECONDS.toNanos(tickMs);
        return stepDownNs > 0 ? Math.min(stepDownNs, tickNs * syncLimit) : syncLimit > 1 ? tickNs * syncLimit - tickNs / 2 : 0;
    }

    /**
     * Whether a leader knows no later than its followers that it is alone, and not before they could answer.
     *
     * @throws Wrong where giusto.step-down is as long as syncLimit ticks, or no longer than half a tick
     */
    void checkStepDown(int tickMs, int syncLimit) {
        if (stepDownNs > 0 && stepDownNs <= TimeUnit.MILLISECONDS.toNanos(tickMs) / 2) {
            throw new Wrong(STEP_DOWN + " is not longer than half a tick, " + tickMs / 2.0
                + " ms, after which a leader sends the next heartbeat; write a longer time, or leave it out");
        }
        if (stepDownNs >= TimeUnit.MILLISECONDS.toNanos(tickMs) * syncLimit) {
            throw new Wrong(STEP_DOWN + " is not shorter than " + syncLimit + " ticks of " + tickMs
                + " ms (syncLimit), after which followers"
                + " leave a leader; write a shorter time, or leave it out");
        }
    }

    /**
     * Ours reach into stock's classes: of another release they may do anything.
     *
     * @param version of the ZooKeeper on the class path
     * @param where it was found
     * @throws Wrong where neither we know it nor {@code giusto.zookeeper} names it
     */
    void zookeeper(String version, String where) {
        if (!KNOWN.contains(version) && !version.equals(accepted)) {
            throw new Wrong("ZooKeeper " + version + " (" + where + ") is unknown to this version of giusto-zookeeper, which was"
                + " tested with " + String.join(", ", KNOWN) + "; put one of these on the class path, or start stock ZooKeeper"
                + " (same zoo.cfg, same data), or try it on a copy of the data with " + ZOOKEEPER + " = " + version);
        }
        if (accepted != null && !version.equals(accepted)) {
            throw new Wrong(ZOOKEEPER + " = " + accepted + ", but this is ZooKeeper " + version + "; leave the key out");
        }
    }

    /**
     * Reads the properties.
     *
     * @param properties system properties after zoo.cfg was parsed
     * @throws Wrong where a key is unknown, given twice with two values, or its value makes no sense
     */
    static Settings of(Properties properties) {
        Map<String, String> given = new TreeMap<>();
        for (String name : properties.stringPropertyNames()) {
            String key = name.startsWith("zookeeper." + PREFIX) ? name.substring("zookeeper.".length()) : name;
            if (!key.startsWith(PREFIX)) {
                continue;
            }
            if (!KEYS.contains(key)) {
                throw new Wrong("unknown property " + key + "; did you mean " + nearest(key) + "?");
            }
            String value = properties.getProperty(name).trim();
            String other = given.put(key, value);
            if (other != null && !other.equals(value)) {
                throw new Wrong(key + " is " + other + " and " + value + ": zoo.cfg and the command line disagree");
            }
        }
        return new Settings(given);
    }

    boolean has(Feature feature) {
        return features.contains(feature);
    }

    private static EpochStore.Mode epochs(Map<String, String> given) {
        String mode = given.getOrDefault(EPOCHS, "reserve");
        String accept = given.get(ACCEPT);
        if (accept != null && !(mode.equals("memory") && accept.equals(ACCEPTED))) {
            throw new Wrong(ACCEPT + " only goes with " + EPOCHS + " = memory, and is then '" + ACCEPTED + "'");
        }
        switch (mode) {
        case "strict":
            return EpochStore.Mode.STRICT;
        case "reserve":
            return EpochStore.Mode.RESERVE;
        case "overlap":
            return EpochStore.Mode.OVERLAP;
        case "memory":
            if (accept == null) {
                throw new Wrong(EPOCHS + " = memory can lose acknowledged writes when machines lose power (docs/coordination.md);"
                    + " it is for study only, and starts with " + ACCEPT + " = " + ACCEPTED);
            }
            return EpochStore.Mode.MEMORY;
        default:
            throw new Wrong(EPOCHS + " = " + mode + " is unknown: strict, reserve, overlap or memory");
        }
    }

    /** At most what stock ZooKeeper waits. */
    private static long duration(String key, String text) {
        return duration(key, text, STOCK_WAIT_NS, "200ms, what stock ZooKeeper waits");
    }

    /** A whole number with a unit: us, ms or s, more than 0. */
    private static long duration(String key, String text, long mostNs, String most) {
        String[] units = {"us", "ms", "s"};
        long[] ns = {1_000L, 1_000_000L, 1_000_000_000L};
        for (int i = 0; i < units.length; i++) {
            String number = text.endsWith(units[i]) ? text.substring(0, text.length() - units[i].length()) : "";
            if (number.matches("[0-9]{1,9}")) {
                long value = Long.parseLong(number) * ns[i];
                if (value == 0 || value > mostNs) {
                    throw new Wrong(key + " = " + text + " is out of range: more than 0 and at most " + most);
                }
                return value;
            }
        }
        throw new Wrong(key + " = " + text + " is no duration: a whole number with us, ms or s, as in 20ms"
            + (key.equals(WAIT) ? ", or 'adaptive'" : ""));
    }

    private static Set<Feature> features(String text) {
        if (text == null) {
            return EnumSet.allOf(Feature.class);
        }
        Set<Feature> set = EnumSet.noneOf(Feature.class);
        for (String name : text.split(",", -1)) {
            try {
                set.add(Feature.valueOf(name.trim().toUpperCase(Locale.ROOT)));
            } catch (IllegalArgumentException e) {
                throw new Wrong(FEATURES + " has '" + name.trim() + "'; known are " + Arrays.stream(Feature.values())
                    .map(f -> f.name().toLowerCase(Locale.ROOT)).collect(Collectors.joining(", ")));
            }
        }
        return set;
    }

    private static String nearest(String key) {
        String best = KEYS.get(0);
        for (String known : KEYS) {
            if (distance(key, known) < distance(key, best)) {
                best = known;
            }
        }
        return best;
    }

    /** Levenshtein's edit distance; keys are short. */
    static int distance(String a, String b) {
        int[] row = new int[b.length() + 1];
        for (int j = 0; j <= b.length(); j++) {
            row[j] = j;
        }
        for (int i = 1; i <= a.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= b.length(); j++) {
                int change = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(change, 1 + Math.min(row[j], row[j - 1]));
            }
        }
        return row[b.length()];
    }
}
