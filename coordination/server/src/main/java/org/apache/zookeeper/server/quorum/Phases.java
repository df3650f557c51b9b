package org.apache.zookeeper.server.quorum;

import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.metrics.MetricsContext;
import org.apache.zookeeper.metrics.Summary;
import org.apache.zookeeper.server.ServerMetrics;

/**
 * How long each phase of a recovery took, for ZooKeeper's own metrics ({@code mntr}, Prometheus): {@code giusto_leave_us}, from
 * the broken connection to the first vote; {@code giusto_election_us}; {@code giusto_connect_us}, until a follower has a
 * connection; {@code giusto_recovery_us}, from the election's end until it serves. In microseconds, because phases are short.
 *
 * <p>Only recoveries count: the first start of a server waits for others.
 */
final class Phases {

    private final RecoveryBound bound;
    private final WaitEstimator waiting;
    private Summary leave;
    private Summary elections;
    private Summary connect;
    private Summary recovery;

    private boolean served;
    private boolean recovering;
    private long lostNs = -1;
    private long roundNs = -1;
    private long round = -1;
    private long electedNs = -1;

    Phases(RecoveryBound bound, WaitEstimator waiting) {
        this.bound = bound;
        this.waiting = waiting;
    }

    /** Once the server's metrics provider is there. */
    synchronized void register() {
        MetricsContext metrics = ServerMetrics.getMetrics().getMetricsProvider().getRootContext();
        leave = metrics.getSummary("giusto_leave_us", MetricsContext.DetailLevel.BASIC);
        elections = metrics.getSummary("giusto_election_us", MetricsContext.DetailLevel.BASIC);
        connect = metrics.getSummary("giusto_connect_us", MetricsContext.DetailLevel.BASIC);
        recovery = metrics.getSummary("giusto_recovery_us", MetricsContext.DetailLevel.BASIC);
    }

    /** The connection to the leader broke, or we cease to lead. */
    synchronized void lost(long nowNs) {
        if (served && lostNs < 0) {
            lostNs = nowNs;
        }
    }

    /** A round of the election begins. A recovery's first round ends the phase before. */
    synchronized void roundStarted(long newRound, long nowNs) {
        round = newRound;
        roundNs = nowNs;
        recovering = served && lostNs >= 0;
        if (recovering) {
            add(leave, bound.leave, nowNs - lostNs);
        }
        served = false;
        lostNs = -1;
    }

    synchronized void elected(long nowNs) {
        electedNs = nowNs;
        if (recovering) {
            add(elections, bound.election, nowNs - roundNs);
            waiting.elected(round, roundNs);
        }
    }

    synchronized void connected(long nowNs) {
        if (recovering && connect != null) {
            connect.add(TimeUnit.NANOSECONDS.toMicros(nowNs - electedNs));
        }
    }

    synchronized void serving(long nowNs) {
        if (recovering) {
            add(recovery, bound.recovery, nowNs - electedNs);
        }
        served = true;
        recovering = false;
        lostNs = -1;
    }

    private void add(Summary summary, Maxima maxima, long ns) {
        maxima.add(ns);
        if (summary != null) {
            summary.add(TimeUnit.NANOSECONDS.toMicros(ns));
        }
    }
}
