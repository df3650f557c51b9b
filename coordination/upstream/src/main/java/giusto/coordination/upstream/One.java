package giusto.coordination.upstream;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;
import static org.junit.platform.engine.discovery.DiscoverySelectors.selectMethod;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import org.apache.zookeeper.server.quorum.UpstreamPeer;
import org.junit.platform.engine.DiscoverySelector;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.launcher.TestExecutionListener;
import org.junit.platform.launcher.TestIdentifier;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/**
 * Plays one test class, or some tests of it, in this process and prints a line a test: {@code @passed|failed|skipped NAME MS WHY}; at the end
 * {@code @peers N elections N}, how many servers of ours there were and how many elections they held.
 */
public final class One implements TestExecutionListener {

    /** Tests redirect System.out. */
    private final PrintStream out = System.out;
    private final Map<String, Long> startedNs = new HashMap<>();

    private One() {
    }

    /**
     * @param args the name of the class; names of its tests where not all of them are played
     */
    public static void main(String[] args) throws ClassNotFoundException {
        One listener = new One();
        Class<?> type = Class.forName(args[0]);
        List<String> names = Arrays.asList(args).subList(1, args.length);
        List<DiscoverySelector> tests = names.isEmpty() ? List.of(selectClass(type)) : Arrays.stream(type.getMethods())
            .filter(method -> names.contains(method.getName())).map(method -> selectMethod(type, method)).collect(Collectors.toList());
        LauncherFactory.create().execute(LauncherDiscoveryRequestBuilder.request().selectors(tests).build(), listener);
        listener.out.println("@peers " + UpstreamPeer.made() + " elections " + UpstreamPeer.elections());
        // Servers that a test left behind must not keep the process.
        Runtime.getRuntime().halt(0);
    }

    @Override
    public void executionStarted(TestIdentifier test) {
        startedNs.put(test.getUniqueId(), System.nanoTime());
    }

    @Override
    public void executionSkipped(TestIdentifier test, String reason) {
        say("skipped", test, reason);
    }

    @Override
    public void executionFinished(TestIdentifier test, TestExecutionResult result) {
        // A container only counts where its own before or after fails.
        if (test.isTest() || result.getStatus() != TestExecutionResult.Status.SUCCESSFUL) {
            String why = result.getThrowable().map(Throwable::toString).orElse("");
            result.getThrowable().ifPresent(Throwable::printStackTrace);
            say(result.getStatus() == TestExecutionResult.Status.SUCCESSFUL ? "passed" : "failed", test, why);
        }
    }

    private void say(String what, TestIdentifier test, String why) {
        String name = test.getDisplayName().replaceAll("[() ].*", "");
        long ms = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startedNs.getOrDefault(test.getUniqueId(), System.nanoTime()));
        out.println("@" + what + " " + name + " " + ms + " " + why.replaceAll("\\s+", " "));
    }
}
