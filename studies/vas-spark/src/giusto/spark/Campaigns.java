package giusto.spark;

import static org.apache.spark.sql.functions.col;
import static org.apache.spark.sql.functions.window;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.streaming.StreamingQueryListener;
import org.apache.spark.sql.streaming.Trigger;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * Views of advertisements, counted by campaign and window of ten seconds: the query of the Structured Yahoo Streaming
 * Benchmark, as Spark runs it in local mode, on Spark's own rate source.
 *
 * <p>{@code Campaigns WORKERS EVENTS_PER_SECOND MILLISECONDS}: how many workers, how many events come, how long a micro-batch
 * is. It prints a line a batch, {@code batch NUMBER: MS ms, ROWS rows}: how long Spark took for it from its trigger to its
 * end, as Spark says.
 */
public final class Campaigns {
    /** As in the benchmark: so many campaigns, of so many advertisements each. */
    private static final int CAMPAIGNS = 100;

    private static final int ADVERTISEMENTS = 10;

    private Campaigns() {}

    public static void main(String[] words) throws Exception {
        if (words.length != 3) {
            System.err.println("Campaigns: expected workers, events per second and the milliseconds of a batch");
            System.exit(2);
        }
        SparkSession spark = SparkSession.builder()
                .appName("campaigns")
                .master("local[" + words[0] + "]")
                .config("spark.sql.shuffle.partitions", words[0])
                .config("spark.scheduler.mode", "FIFO")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .getOrCreate();
        spark.sparkContext().setLogLevel("ERROR");
        spark.streams().addListener(new Told());
        List<Row> rows = new ArrayList<>();
        for (int ad = 0; ad < CAMPAIGNS * ADVERTISEMENTS; ad++) {
            rows.add(RowFactory.create((long) ad, (long) (ad / ADVERTISEMENTS)));
        }
        StructType form = new StructType().add("ad", DataTypes.LongType).add("campaign", DataTypes.LongType);
        Dataset<Row> campaigns = spark.createDataFrame(rows, form).cache();
        // Each third event is a view, of an advertisement that a hash of its number draws.
        Dataset<Row> events = spark.readStream()
                .format("rate")
                .option("rowsPerSecond", words[1])
                .option("numPartitions", words[0])
                .load()
                .selectExpr("timestamp", "sha2(cast(value as string), 256) as user", "value % 3 as kind",
                        "pmod(hash(value), " + CAMPAIGNS * ADVERTISEMENTS + ") as drawn");
        Dataset<Row> counts = events.filter("kind = 0")
                .join(campaigns, events.col("drawn").equalTo(campaigns.col("ad")))
                .withWatermark("timestamp", "10 seconds")
                .groupBy(window(col("timestamp"), "10 seconds"), col("campaign"))
                .agg(org.apache.spark.sql.functions.count("*").as("views"),
                        org.apache.spark.sql.functions.max("user").as("last"));
        counts.writeStream()
                .outputMode("update")
                .format("noop")
                .trigger(Trigger.ProcessingTime(words[2] + " milliseconds"))
                .start()
                .awaitTermination();
    }

    /** Tells of each batch that had rows. */
    private static final class Told extends StreamingQueryListener {
        @Override
        public void onQueryStarted(QueryStartedEvent event) {}

        @Override
        public void onQueryProgress(QueryProgressEvent event) {
            Long took = event.progress().durationMs().get("triggerExecution");
            System.out.println("batch " + event.progress().batchId() + ": " + took + " ms, "
                    + event.progress().numInputRows() + " rows");
        }

        @Override
        public void onQueryTerminated(QueryTerminatedEvent event) {}
    }
}
