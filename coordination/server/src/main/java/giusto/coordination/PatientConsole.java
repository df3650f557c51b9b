package giusto.coordination;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.ConsoleAppender;
import java.util.concurrent.LinkedBlockingQueue;

/**
 * A console that writes a little later: a recovery logs a hundred lines, and clients of the server would wait for them.
 * Lines keep the time at which they were said, and their order. A thread writes them every {@value #EVERY_MS} ms; an error, and
 * the end of the process, writes them at once. What is lost when the process is killed is what it said in its last quarter of a
 * second.
 *
 * <p>Memory: at most {@value #LINES} lines wait; who says one more writes them all.
 */
public final class PatientConsole extends ConsoleAppender<ILoggingEvent> {

    static final long EVERY_MS = 250;
    static final int LINES = 2_000;

    private final LinkedBlockingQueue<ILoggingEvent> waiting = new LinkedBlockingQueue<>(LINES);
    private Thread writer;

    @Override
    public void start() {
        super.start();
        writer = new Thread(this::write, "giusto-log");
        writer.setDaemon(true);
        writer.start();
    }

    /** Called at the end of the process, by logback's hook. */
    @Override
    public void stop() {
        if (writer != null) {
            writer.interrupt();
        }
        flush();
        super.stop();
    }

    @Override
    protected void append(ILoggingEvent event) {
        if (!isStarted()) {
            return;
        }
        // Its text is made now: what it names may change.
        event.prepareForDeferredProcessing();
        boolean room = waiting.offer(event);
        if (!room || event.getLevel().isGreaterOrEqual(Level.ERROR)) {
            flush();
        }
        if (!room) {
            super.append(event);
        }
    }

    private void write() {
        try {
            while (isStarted()) {
                Thread.sleep(EVERY_MS);
                flush();
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    /** One at a time, so that lines stay in order. */
    private synchronized void flush() {
        for (ILoggingEvent event = waiting.poll(); event != null; event = waiting.poll()) {
            super.append(event);
        }
    }
}
