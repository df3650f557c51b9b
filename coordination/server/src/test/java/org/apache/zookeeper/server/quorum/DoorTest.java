package org.apache.zookeeper.server.quorum;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class DoorTest {

    private final Door door = new Door();

    @Test
    void aSilentConnectionDelaysNoOther() throws InterruptedException {
        CountDownLatch never = new CountDownLatch(1);
        List<Socket> silent = new ArrayList<>();
        for (int i = 0; i < 3 * Door.ROOM; i++) {
            silent.add(new Socket());
            door.enter(silent.get(i), () -> await(never));
        }
        assertEquals(Door.ROOM, door.waiting());
        for (int i = 0; i < silent.size(); i++) {
            assertEquals(i < 2 * Door.ROOM, silent.get(i).isClosed(), "the one that came as number " + i);
        }
        CountDownLatch heard = new CountDownLatch(1);
        door.enter(new Socket(), heard::countDown);
        assertTrue(heard.await(10, TimeUnit.SECONDS));
        never.countDown();
    }

    @Test
    void nonsenseEndsTheConnectionAlone() throws InterruptedException {
        Socket socket = new Socket();
        door.enter(socket, () -> {
            throw new IllegalArgumentException("port out of range:99999");
        });
        for (int i = 0; i < 1000 && door.waiting() > 0; i++) {
            Thread.sleep(10);
        }
        assertTrue(socket.isClosed());
        assertEquals(0, door.waiting());
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
