package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertTrue;
import org.junit.jupiter.api.Test;

class WarmStartTest {

    @Test
    void nearlyAllNamesOnTheListExist() throws Exception {
        String list = new String(WarmStart.class.getResourceAsStream(WarmStart.LIST).readAllBytes(), "UTF-8");
        long names = list.lines().count();
        assertTrue(names > 100, "the list is short: " + names);
        // A few belong to one JVM's or logger's inner workings.
        assertTrue(WarmStart.load() > names * 9 / 10);
    }
}
