import de.uni_kl.cs.discodnc.curves.CurvePwAffine;
import de.uni_kl.cs.discodnc.nc.AbstractAnalysis;
import de.uni_kl.cs.discodnc.nc.AnalysisConfig.Multiplexing;
import de.uni_kl.cs.discodnc.nc.analyses.PmooAnalysis;
import de.uni_kl.cs.discodnc.nc.analyses.SeparateFlowAnalysis;
import de.uni_kl.cs.discodnc.nc.analyses.TotalFlowAnalysis;
import de.uni_kl.cs.discodnc.network.Flow;
import de.uni_kl.cs.discodnc.network.Network;
import de.uni_kl.cs.discodnc.network.Server;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.List;

/**
 * Bounds of the delay of a tandem's first flow. A line of standard input is a tandem: "rate latency, ...; rate burst, ...", its
 * servers in order and the flows, each of which goes through all of them. For each a line: TFA and SFA with flows first come,
 * first served, then SFA and PMOO with flows in any order, for which alone the DNC has PMOO.
 */
public final class Bounds {
    private Bounds() {}

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(";");
            Tandem fifo = new Tandem(parts[0], parts[1], Multiplexing.FIFO);
            Tandem any = new Tandem(parts[0], parts[1], Multiplexing.ARBITRARY);
            System.out.printf(
                    "%s %s %s %s%n",
                    fifo.delay(new TotalFlowAnalysis(fifo.network)),
                    fifo.delay(new SeparateFlowAnalysis(fifo.network)),
                    any.delay(new SeparateFlowAnalysis(any.network)),
                    any.delay(new PmooAnalysis(any.network)));
        }
    }

    private static final class Tandem {
        final Network network = new Network();
        private final Flow first;

        Tandem(String servers, String flows, Multiplexing order) throws Exception {
            CurvePwAffine curves = CurvePwAffine.getFactory();
            List<Server> row = new ArrayList<>();
            for (String server : servers.split(",")) {
                double[] numbers = numbers(server);
                row.add(network.addServer(curves.createRateLatency(numbers[0], numbers[1]), order));
                if (row.size() > 1) {
                    network.addLink(row.get(row.size() - 2), row.get(row.size() - 1));
                }
            }
            List<Flow> all = new ArrayList<>();
            for (String flow : flows.split(",")) {
                double[] numbers = numbers(flow);
                all.add(network.addFlow(
                        curves.createTokenBucket(numbers[0], numbers[1]), row.get(0), row.get(row.size() - 1)));
            }
            first = all.get(0);
        }

        double delay(AbstractAnalysis analysis) throws Exception {
            ((de.uni_kl.cs.discodnc.nc.Analysis) analysis).performAnalysis(first);
            return analysis.getDelayBound().doubleValue();
        }

        private static double[] numbers(String pair) {
            String[] words = pair.trim().split(" ");
            return new double[] {Double.parseDouble(words[0]), Double.parseDouble(words[1])};
        }
    }
}
