package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.net.Socket;
import java.util.LinkedHashSet;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Where connections wait until they have said who they are: each in a thread of its own, so that none waits for another. When too
 * many wait, the one that has been silent for longest is closed. A server says all of it at once, a stranger may never.
 */
final class Door {

    private static final Logger LOG = LoggerFactory.getLogger(Door.class);
    /** More than an ensemble has servers that connect at once. */
    static final int ROOM = 64;

    private final Set<Socket> waiting = new LinkedHashSet<>();

    /** Runs what reads a connection's first message, and survives whatever that throws. */
    void enter(Socket socket, Runnable reads) {
        Socket longest = null;
        synchronized (waiting) {
            waiting.add(socket);
            if (waiting.size() > ROOM) {
                longest = waiting.iterator().next();
                waiting.remove(longest);
            }
        }
        if (longest != null) {
            close(longest);
        }
        Thread thread = new Thread(() -> read(socket, reads), "giusto-door");
        thread.setDaemon(true);
        thread.start();
    }

    private void read(Socket socket, Runnable reads) {
        try {
            reads.run();
        } catch (RuntimeException e) {
            LOG.warn("What {} said first makes no sense", socket.getRemoteSocketAddress(), e);
            close(socket);
        } finally {
            synchronized (waiting) {
                waiting.remove(socket);
            }
        }
    }

    int waiting() {
        synchronized (waiting) {
            return waiting.size();
        }
    }

    static void close(Socket socket) {
        try {
            socket.close();
        } catch (IOException e) {
            LOG.debug("While a connection was closed", e);
        }
    }
}
