package org.apache.zookeeper.server.quorum;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Loads at start the classes that a recovery needs first: a server that never led would load some hundred of them in the middle
 * of its first recovery. The list is what a JVM loaded during recoveries (bin/warm-classes makes it).
 */
final class WarmStart {

    private static final Logger LOG = LoggerFactory.getLogger(WarmStart.class);
    static final String LIST = "/giusto/warm-classes.txt";

    private WarmStart() {
    }

    /** How many classes are loaded; names that do not exist (any more) are left out. */
    static int load() {
        int loaded = 0;
        try (InputStream in = WarmStart.class.getResourceAsStream(LIST);
            BufferedReader lines = new BufferedReader(new InputStreamReader(in, UTF_8))) {
            for (String name = lines.readLine(); name != null; name = lines.readLine()) {
                try {
                    Class.forName(name, true, WarmStart.class.getClassLoader());
                    loaded++;
                } catch (ClassNotFoundException | LinkageError e) {
                    LOG.debug("Not loaded: {}", name, e);
                }
            }
        } catch (IOException e) {
            LOG.warn("The list of classes cannot be read", e);
        }
        return loaded;
    }
}
