package giusto.coordination.kafka;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.LongDeserializer;
import org.apache.kafka.common.serialization.LongSerializer;

/**
 * What an application asks of Kafka while something dies: {@code topics} makes topics, {@code stream} sends a message every so often
 * and receives it. Says what happened when, in microseconds of the wall clock: the harness knows when it killed.
 */
public final class Load {

    /**
     * Clients that come back fast, in every arm: it is not their back-off that is measured. They also learn of a broker that
     * has come back before the other one dies: with the default of five minutes they would then know no live broker.
     */
    private static final Map<String, Object> PATIENCE = Map.of("retry.backoff.ms", 10, "retry.backoff.max.ms", 20,
        "reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 20, "request.timeout.ms", 60_000,
        "metadata.max.age.ms", 1000);

    private Load() {
    }

    /**
     * @param args {@code topics BROKERS} or {@code stream BROKERS TOPIC MILLISECONDS}
     */
    public static void main(String[] args) throws Exception {
        if (args[0].equals("topics")) {
            topics(args[1]);
        } else {
            stream(args[1], args[2], Long.parseLong(args[3]));
        }
    }

    private static Map<String, Object> config(String brokers, Map<String, Object> more) {
        Map<String, Object> all = new HashMap<>(PATIENCE);
        all.put("bootstrap.servers", brokers);
        all.putAll(more);
        return all;
    }

    private static long now() {
        return ChronoUnit.MICROS.between(Instant.EPOCH, Instant.now());
    }

    /** For each line, "NAME BROKER,BROKER...": a topic of one partition with replicas on these. Answers "NAME BEGUN ACKNOWLEDGED". */
    private static void topics(String brokers) throws Exception {
        try (Admin admin = Admin.create(config(brokers, Map.of("default.api.timeout.ms", 120_000)));
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, UTF_8))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                long begun = now();
                String[] words = line.split(" ");
                List<Integer> replicas = new ArrayList<>();
                for (String broker : words[1].split(",")) {
                    replicas.add(Integer.valueOf(broker));
                }
                admin.createTopics(List.of(new NewTopic(words[0], Map.of(0, replicas)))).all().get();
                System.out.println(words[0] + " " + begun + " " + now());
            }
        }
    }

    /** Message n is sent n periods after the first, whatever became of those before. Says "NUMBER SENT RECEIVED" of each that arrives. */
    private static void stream(String brokers, String topic, long period) throws Exception {
        TopicPartition partition = new TopicPartition(topic, 0);
        Thread producing = new Thread(() -> produce(brokers, partition, period));
        producing.setDaemon(true);
        producing.start();
        try (KafkaConsumer<Long, Long> consumer = new KafkaConsumer<>(
            config(brokers, Map.of("auto.offset.reset", "earliest")), new LongDeserializer(), new LongDeserializer())) {
            consumer.assign(List.of(partition));
            while (producing.isAlive()) {
                for (ConsumerRecord<Long, Long> record : consumer.poll(Duration.ofSeconds(1))) {
                    System.out.println(record.key() + " " + record.value() + " " + now());
                }
            }
        }
        System.exit(1);
    }

    private static void produce(String brokers, TopicPartition partition, long period) {
        // All replicas that are in sync have a message before it is acknowledged; in order and once.
        Map<String, Object> more = Map.of("acks", "all", "enable.idempotence", true, "max.block.ms", 120_000, "delivery.timeout.ms", 120_000);
        try (KafkaProducer<Long, Long> producer = new KafkaProducer<>(config(brokers, more), new LongSerializer(), new LongSerializer())) {
            long first = System.nanoTime();
            for (long n = 0;; n++) {
                long wait = first + n * period * 1_000_000 - System.nanoTime();
                Thread.sleep(Math.max(0, wait / 1_000_000));
                producer.send(new ProducerRecord<>(partition.topic(), 0, n, now()), (done, failure) -> {
                    if (failure != null) {
                        System.err.println("not acknowledged: " + failure);
                    }
                });
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
