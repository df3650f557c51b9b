package org.apache.zookeeper.server.quorum;

import java.io.IOException;
import java.io.InputStream;
import java.net.InetSocketAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A leader's socket whose connections pass {@link PacketGuard}, and that outlives a want of file descriptors. */
final class GuardedServerSocket extends ServerSocket {

    private static final Logger LOG = LoggerFactory.getLogger(GuardedServerSocket.class);
    private static final long AGAIN_MS = 20;

    private final LongConsumer answers;

    /** @param answers to heartbeats, as {@link PacketGuard} has them */
    GuardedServerSocket(InetSocketAddress address, LongConsumer answers) throws IOException {
        this.answers = answers;
        setReuseAddress(true);
        bind(address);
    }

    /** Stock's leader gives up when a connection cannot be accepted. */
    @Override
    public Socket accept() throws IOException {
        while (true) {
            Socket socket = new Socket() {
                @Override
                public InputStream getInputStream() throws IOException {
                    return new PacketGuard(super.getInputStream(), answers);
                }
            };
            try {
                implAccept(socket);
                return socket;
            } catch (SocketException e) {
                if (isClosed()) {
                    throw e;
                }
                LOG.warn("A connection cannot be accepted", e);
                pause();
            }
        }
    }

    private void pause() throws IOException {
        try {
            TimeUnit.MILLISECONDS.sleep(AGAIN_MS);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            throw new SocketException("interrupted");
        }
    }
}
