package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.apache.zookeeper.Version;
import org.apache.zookeeper.server.ExitCode;
import org.apache.zookeeper.server.admin.AdminServer.AdminServerException;
import org.apache.zookeeper.server.persistence.FileTxnSnapLog.DatadirException;
import org.apache.zookeeper.server.quorum.QuorumPeerConfig.ConfigException;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Starts a server as stock's QuorumPeerMain does, with the same zoo.cfg, and the {@code giusto.*} properties in it.
 *
 * <p>Exit codes are stock's: 2 where the configuration is wrong.
 */
public class RtQuorumPeerMain extends Runner {

    private static final Logger LOG = LoggerFactory.getLogger(RtQuorumPeerMain.class);
    private static final String CONNECT_DELAY = "zookeeper.leaderConnectDelayDuringRetryMs";
    /**
     * After so long, a leader without a quorum gives up when one that voted for it looks for a leader again. Stock has it, and has it
     * off: voter and leader then wait for each other for initLimit ticks.
     */
    private static final String DISLOYAL_MS = "300";

    /** What a start may take longer for it. */
    private static final long REHEARSAL_NS = TimeUnit.SECONDS.toNanos(4);

    RtQuorumPeerMain() {
    }

    RtQuorumPeerMain(Settings settings) {
        super(settings);
    }

    /**
     * @param args the path of zoo.cfg
     */
    public static void main(String[] args) {
        ExitCode code = ExitCode.EXECUTION_FINISHED;
        try {
            if (args.length != 1) {
                throw new IllegalArgumentException("write the path of zoo.cfg, and nothing else");
            }
            new RtQuorumPeerMain().initializeAndRun(args);
        } catch (IllegalArgumentException | ConfigException e) {
            code = refuse(ExitCode.INVALID_INVOCATION, e);
        } catch (DatadirException e) {
            code = refuse(ExitCode.UNABLE_TO_ACCESS_DATADIR, e);
        } catch (AdminServerException e) {
            code = refuse(ExitCode.ERROR_STARTING_ADMIN_SERVER, e);
        } catch (Exception e) {
            code = refuse(ExitCode.UNEXPECTED_ERROR, e);
        }
        ServiceUtils.requestSystemExit(code.getValue());
    }

    private static ExitCode refuse(ExitCode code, Exception e) {
        LOG.error("Exiting abnormally", e);
        Throwable cause = e instanceof ConfigException && e.getCause() != null ? e.getCause() : e;
        System.err.println("giusto-zookeeper: " + cause.getMessage());
        return code;
    }

    @Override
    protected void initializeAndRun(String[] args) throws ConfigException, IOException, AdminServerException {
        QuorumPeerConfig config = new QuorumPeerConfig();
        config.parse(args[0]);
        settings = Settings.of(System.getProperties());
        var source = Version.class.getProtectionDomain().getCodeSource();
        settings.zookeeper(Version.getVersion(), String.valueOf(source.getLocation()));
        if (!config.isDistributed()) {
            throw new IllegalArgumentException(args[0] + " names no server.N: there is no leader to recover, start stock ZooKeeper");
        }
        settings.checkStepDown(config.getTickTime(), config.getSyncLimit());
        prepare();
        super.initializeAndRun(args);
    }

    /** Before stock's classes read their properties, once. */
    void prepare() {
        if (settings.epochs == EpochStore.Mode.MEMORY) {
            LOG.warn("giusto.epochs = memory: a power loss can lose acknowledged writes");
            System.err.println("giusto-zookeeper: epochs are only in memory; a power loss can lose acknowledged writes");
        }
        if (settings.has(Settings.Feature.FCLE)) {
            notificationInterval();
        }
        if (settings.has(Settings.Feature.FQCE) && System.getProperty(CONNECT_DELAY) == null) {
            System.setProperty(CONNECT_DELAY, "2");
        }
        if (System.getProperty(Leader.MAX_TIME_TO_WAIT_FOR_EPOCH) == null) {
            System.setProperty(Leader.MAX_TIME_TO_WAIT_FOR_EPOCH, DISLOYAL_MS);
        }
        if (settings.has(Settings.Feature.WARM)) {
            LOG.info("{} classes are loaded for a recovery", WarmStart.load());
        }
        if (settings.has(Settings.Feature.REHEARSE) && Aside.possible()) {
            long start = System.nanoTime();
            int played = Rehearsal.play(settings, Path.of(System.getProperty("java.io.tmpdir")), REHEARSAL_NS);
            LOG.info("{} recoveries rehearsed in {} ms", played, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start));
        }
    }

    /**
     * Stock's election waits in two places and passes 200 ms in one. The other starts with the notification interval and doubles
     * it; it must never come to 200 ms, or {@link VoteQueue} would take one for the other. (The constants named here are copied
     * by the compiler: naming them does not initialise stock's class.)
     */
    private static void notificationInterval() {
        String key = FastLeaderElection.MIN_NOTIFICATION_INTERVAL;
        int min = interval(key, 60);
        int max = interval(FastLeaderElection.MAX_NOTIFICATION_INTERVAL, 60_000);
        for (long wait = min; ; wait = Math.min(wait * 2, max)) {
            if (wait == FastLeaderElection.finalizeWait) {
                throw new Settings.Wrong(key + " = " + min + " comes to 200 ms when it is doubled, which Giusto cannot tell from the"
                    + " wait of an election; write another number, or leave it out for 60");
            }
            if (wait >= max || wait > FastLeaderElection.finalizeWait) {
                break;
            }
        }
        System.setProperty(key, Integer.toString(min));
    }

    private static int interval(String key, int otherwise) {
        int value = Integer.getInteger(key, otherwise);
        if (value < 1) {
            throw new Settings.Wrong(key + " = " + value + " must be at least 1");
        }
        return value;
    }

    /**
     * It has its data and votes: systemd is told (Type=notify). That it serves, too, takes a quorum, for which the unit of a
     * single server must not wait.
     */
    @Override
    void started() {
        if (System.getenv("NOTIFY_SOCKET") == null) {
            return;
        }
        try {
            new ProcessBuilder("systemd-notify", "--ready").inheritIO().start();
        } catch (IOException e) {
            LOG.warn("systemd is not told that this server has started", e);
        }
    }
}
