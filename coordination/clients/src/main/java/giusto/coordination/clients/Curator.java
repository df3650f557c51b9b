package giusto.coordination.clients;

import static java.nio.charset.StandardCharsets.UTF_8;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/**
 * Curator as an application uses it: a lock, a leader latch, a counter. Counts under the lock until its standard input ends,
 * prints a line when it has begun, and the counter against its own count at the end; exit 1 where they differ. One process
 * counts, so what it acknowledged itself must be there; an attempt whose answer was lost may be there too.
 */
public final class Curator {

    private Curator() {
    }

    /**
     * @param args where the servers are, and the node to work under
     */
    public static void main(String[] args) throws Exception {
        long acknowledged = 0;
        long attempts = 0;
        boolean begun = false;
        RetryForever retry = new RetryForever(50);
        try (CuratorFramework client = CuratorFrameworkFactory.newClient(args[0], 10_000, 5_000, retry);
            LeaderLatch latch = new LeaderLatch(client, args[1] + "/latch")) {
            client.start();
            latch.start();
            if (!latch.await(30, TimeUnit.SECONDS)) {
                throw new IllegalStateException("no leader latch");
            }
            InterProcessMutex lock = new InterProcessMutex(client, args[1] + "/lock");
            DistributedAtomicLong counter = new DistributedAtomicLong(client, args[1] + "/count", retry);
            while (System.in.available() == 0) {
                lock.acquire();
                try {
                    attempts++;
                    acknowledged += counter.increment().succeeded() ? 1 : 0;
                } finally {
                    lock.release();
                }
                if (!begun) {
                    begun = true;
                    System.out.println("counting");
                }
                Thread.sleep(5);
            }
            client.create().orSetData().forPath(args[1] + "/end", "done".getBytes(UTF_8));
            long value = counter.get().postValue();
            System.out.printf("Curator %s socket: %d acknowledged of %d, counter %d%n",
                System.getProperty("zookeeper.clientCnxnSocket", "stock").replaceAll(".*\\.", ""), acknowledged, attempts, value);
            // An increment whose answer was lost with the leader counts twice: Curator sends it again, is told of another
            // version, and begins anew.
            if (value < acknowledged || value > attempts + 1 || acknowledged == 0) {
                System.exit(1);
            }
        }
    }
}
