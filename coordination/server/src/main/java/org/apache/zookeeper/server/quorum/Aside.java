package org.apache.zookeeper.server.quorum;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import org.apache.zookeeper.util.ServiceUtils;
import org.slf4j.ILoggerFactory;
import org.slf4j.LoggerFactory;
import org.slf4j.MDC;
import org.slf4j.Marker;

/**
 * Keeps what servers of a rehearsal do to the process from being taken for the real server's: their log lines are dropped, none
 * of their failures ends the process, no admin server opens its port, and log lines do not get their numbers.
 */
final class Aside {

    static final String ADMIN = "admin.enableServer";

    /** What a configuration sets that is parsed: the number of the server in this thread's log lines. */
    private static final String MYID = "myid";

    private final String myid = MDC.get(MYID);
    private final String admin = System.getProperty("zookeeper." + ADMIN);
    private final ILoggerFactory loggers = LoggerFactory.getILoggerFactory();
    private final Silence silence = new Silence();

    /**
     * Whether a process can be kept apart at all: a login (SASL) is not repeated for a rehearsal, and an audit log would list its servers.
     */
    static boolean possible() {
        return System.getProperty("java.security.auth.login.config") == null && !Boolean.getBoolean("zookeeper.audit.enable");
    }

    Aside() {
        if (loggers instanceof LoggerContext) {
            ((LoggerContext) loggers).addTurboFilter(silence);
        }
        ServiceUtils.setSystemExitProcedure(ServiceUtils.LOG_ONLY);
        System.setProperty("zookeeper." + ADMIN, "false");
    }

    /** Everything as it was. */
    void end() {
        if (myid == null) {
            MDC.remove(MYID);
        } else {
            MDC.put(MYID, myid);
        }
        if (admin == null) {
            System.clearProperty("zookeeper." + ADMIN);
        } else {
            System.setProperty("zookeeper." + ADMIN, admin);
        }
        ServiceUtils.setSystemExitProcedure(ServiceUtils.SYSTEM_EXIT);
        if (loggers instanceof LoggerContext) {
            ((LoggerContext) loggers).getTurboFilterList().remove(silence);
        }
    }

    private static final class Silence extends TurboFilter {
        @Override
        public FilterReply decide(Marker marker, ch.qos.logback.classic.Logger logger, Level level, String format, Object[] parameters,
            Throwable thrown) {
            return FilterReply.DENY;
        }
    }
}
