import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.CreateTopicsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetOutOfRangeException;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TopicExistsException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What a Java program sees, many checks in one JVM: "ok NAME" or "not ok NAME: reason" per check on standard output.
 *
 * <p>usage: Clients BROKER PREFIX — PREFIX begins the name of every topic.
 */
public class Clients {
    interface Check {
        void run(String topic) throws Exception;
    }

    static String broker;
    static Admin admin;

    static Properties base() {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        return p;
    }

    static KafkaProducer<String, String> producer(String... more) {
        Properties p = base();
        for (int i = 0; i < more.length; i += 2) {
            p.put(more[i], more[i + 1]);
        }
        return new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
    }

    static KafkaConsumer<String, String> consumer(String... more) {
        Properties p = base();
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        for (int i = 0; i < more.length; i += 2) {
            p.put(more[i], more[i + 1]);
        }
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    static void create(String topic, int partitions, Map<String, String> configs) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        // Kafka answers a moment before the topic is usable; the first describe that succeeds ends the wait.
        for (int i = 0; i < 100 && !admin.listTopics().names().get().contains(topic); i++) {
            Thread.onSpinWait();
        }
    }

    static List<ConsumerRecord<String, String>> read(KafkaConsumer<String, String> c, TopicPartition tp, int n) {
        c.assign(List.of(tp));
        c.seekToBeginning(List.of(tp));
        List<ConsumerRecord<String, String>> out = new ArrayList<>();
        long deadline = System.nanoTime() + 20_000_000_000L;
        while (out.size() < n && System.nanoTime() < deadline) {
            c.poll(Duration.ofMillis(500)).records(tp).forEach(out::add);
        }
        return out;
    }

    static void check(boolean good, String why) {
        if (!good) {
            throw new AssertionError(why);
        }
    }

    static Throwable failure(Future<?> f) throws InterruptedException {
        try {
            f.get();
            return null;
        } catch (ExecutionException e) {
            return e.getCause();
        }
    }

    // ---- the checks ----

    /** BR-026: a producer with no settings but the bootstrap address (idempotent, acks=all) onto an auto-created topic. */
    static void defaultProducer(String topic) throws Exception {
        try (KafkaProducer<String, String> p = producer(); KafkaConsumer<String, String> c = consumer()) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int i = 0; i < 1000; i++) {
                sent.add(p.send(new ProducerRecord<>(topic, 0, "k", "v" + i)));
            }
            for (int i = 0; i < 1000; i++) {
                check(sent.get(i).get().offset() == i, "offset " + sent.get(i).get().offset() + " for " + i);
            }
            List<ConsumerRecord<String, String>> got = read(c, new TopicPartition(topic, 0), 1000);
            check(got.size() == 1000, got.size() + " of 1000");
            for (int i = 0; i < 1000; i++) {
                check(got.get(i).value().equals("v" + i), "order at " + i);
            }
        }
    }

    /** Each codec of the Java client, headers and null keys and values included. */
    static void codecs(String topic) throws Exception {
        create(topic, 1, Map.of());
        int n = 0;
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            try (KafkaProducer<String, String> p = producer("compression.type", codec, "linger.ms", "20")) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (int i = 0; i < 200; i++) {
                    ProducerRecord<String, String> r = new ProducerRecord<>(topic, i % 3 == 0 ? null : "k" + i, i % 7 == 0 ? null : codec + i);
                    r.headers().add("h", codec.getBytes()).add("h", null);
                    sent.add(p.send(r));
                }
                for (Future<RecordMetadata> f : sent) {
                    check(f.get().offset() == n++, "offset");
                }
            }
        }
        try (KafkaConsumer<String, String> c = consumer("check.crcs", "true")) {
            List<ConsumerRecord<String, String>> got = read(c, new TopicPartition(topic, 0), n);
            check(got.size() == n, got.size() + " of " + n);
            for (ConsumerRecord<String, String> r : got) {
                check(r.headers().toArray().length == 2 && r.headers().lastHeader("h").value() == null, "headers at " + r.offset());
            }
        }
    }

    /** BR-010, BR-011: look-up by time inside a batch; nothing at or after gives null. */
    static void offsetsForTimes(String topic) throws Exception {
        create(topic, 1, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        long t0 = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<String, String> p = producer("linger.ms", "50"); KafkaConsumer<String, String> c = consumer()) {
            check(c.offsetsForTimes(Map.of(tp, t0)).get(tp) == null, "an empty topic has no offset for a time");
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int t : new int[] {2, 4, 6, 8}) {
                sent.add(p.send(new ProducerRecord<>(topic, 0, t0 + t, null, "t" + t)));
            }
            for (Future<RecordMetadata> f : sent) {
                f.get();
            }
            int[][] wanted = {{2, 0}, {3, 1}, {4, 1}, {5, 2}, {8, 3}};
            for (int[] w : wanted) {
                check(c.offsetsForTimes(Map.of(tp, t0 + w[0])).get(tp).offset() == w[1], "time " + w[0]);
            }
            check(c.offsetsForTimes(Map.of(tp, t0 + 3_600_000)).get(tp) == null, "the future has an offset");
            check(c.endOffsets(List.of(tp)).get(tp) == 4 && c.beginningOffsets(List.of(tp)).get(tp) == 0, "ends");
            check(admin.listOffsets(Map.of(tp, OffsetSpec.maxTimestamp())).partitionResult(tp).get().offset() == 3, "max timestamp");
        }
    }

    /** BR-017: a message far above the consumer's limits arrives. */
    static void largeMessage(String topic) throws Exception {
        create(topic, 1, Map.of("max.message.bytes", "6000000"));
        try (KafkaProducer<String, String> p = producer("max.request.size", "6000000");
             KafkaConsumer<String, String> c = consumer("fetch.max.bytes", "1000", "max.partition.fetch.bytes", "1000")) {
            p.send(new ProducerRecord<>(topic, 0, null, "L".repeat(5_000_000))).get();
            check(read(c, new TopicPartition(topic, 0), 1).get(0).value().length() == 5_000_000, "length");
        }
    }

    /** BR-052: too large for the topic is told as such, for that topic only; the client's split of batches works. */
    static void tooLarge(String topic) throws Exception {
        create(topic, 1, Map.of("max.message.bytes", "20000"));
        create(topic + "-other", 1, Map.of());
        try (KafkaProducer<String, String> p = producer("batch.size", "100000", "linger.ms", "100")) {
            Future<?> big = p.send(new ProducerRecord<>(topic, 0, null, "x".repeat(30_000)));
            Future<?> other = p.send(new ProducerRecord<>(topic + "-other", 0, null, "x".repeat(30_000)));
            check(failure(big) instanceof RecordTooLargeException, "told " + failure(big));
            check(failure(other) == null, "the other topic: " + failure(other));
            List<Future<?>> many = new ArrayList<>();
            for (int i = 0; i < 9; i++) {
                many.add(p.send(new ProducerRecord<>(topic, 0, null, "y".repeat(9_000))));
            }
            for (Future<?> f : many) {
                check(failure(f) == null, "split: " + failure(f));
            }
        }
    }

    /** BR-004, T46: beyond the end is out of range, told as such; the end itself is not. */
    static void outOfRange(String topic) throws Exception {
        create(topic, 1, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> p = producer(); KafkaConsumer<String, String> c = consumer("fetch.max.wait.ms", "100")) {
            p.send(new ProducerRecord<>(topic, 0, null, "x")).get();
            c.assign(List.of(tp));
            c.seek(tp, 1);
            check(c.poll(Duration.ofMillis(600)).isEmpty(), "records at the end");
            c.seek(tp, 99_999_999);
            try {
                for (int i = 0; i < 20; i++) {
                    c.poll(Duration.ofMillis(500));
                }
                check(false, "no error");
            } catch (OffsetOutOfRangeException good) {
                check(good.partitions().equals(Set.of(tp)), "partitions");
            }
        }
    }

    /** BR-043: a consumer with allow.auto.create.topics=false does not create. */
    static void noCreation(String topic) throws Exception {
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> c = consumer("allow.auto.create.topics", "false")) {
            c.assign(List.of(tp));
            c.seek(tp, 0);
            c.poll(Duration.ofMillis(500));
        }
        check(!admin.listTopics().names().get().contains(topic), "created");
    }

    /** BR-049: default counts through Admin; BR-050: existing and bad names. */
    static void adminTopics(String topic) throws Exception {
        CreateTopicsResult r = admin.createTopics(List.of(new NewTopic(topic, Optional.empty(), Optional.empty())));
        check(r.numPartitions(topic).get() >= 1 && r.replicationFactor(topic).get() == 1, "counts");
        check(r.config(topic).get().get("retention.ms") != null, "configs");
        Throwable again = failure(admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all());
        check(again instanceof TopicExistsException, "told " + again);
        Throwable bad = failure(admin.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))).all());
        check(bad instanceof org.apache.kafka.common.errors.InvalidTopicException, "told " + bad);
        Throwable many = failure(admin.createTopics(List.of(new NewTopic(topic + "-3", 1, (short) 3))).all());
        check(many instanceof org.apache.kafka.common.errors.InvalidReplicationFactorException, "told " + many);
        admin.deleteTopics(List.of(topic)).all().get();
    }

    /** BR-042: a live producer and consumer over deletion and re-creation of their topic. */
    static void recreated(String topic) throws Exception {
        TopicPartition tp = new TopicPartition(topic, 0);
        create(topic, 1, Map.of());
        try (KafkaProducer<String, String> p = producer("metadata.max.age.ms", "1000", "delivery.timeout.ms", "30000",
                 "request.timeout.ms", "3000", "linger.ms", "0");
             KafkaConsumer<String, String> c = consumer("metadata.max.age.ms", "1000", "auto.offset.reset", "earliest")) {
            for (int life = 0; life < 3; life++) {
                String value = "life" + life;
                long deadline = System.nanoTime() + 20_000_000_000L;
                while (failure(p.send(new ProducerRecord<>(topic, 0, null, value))) != null) {
                    check(System.nanoTime() < deadline, "producing did not go on in life " + life);
                }
                c.assign(List.of(tp));
                c.seekToBeginning(List.of(tp));
                String got = null;
                while (got == null && System.nanoTime() < deadline) {
                    for (ConsumerRecord<String, String> r : c.poll(Duration.ofMillis(300)).records(tp)) {
                        check(r.value().equals(value), "life " + life + " shows " + r.value());
                        got = r.value();
                    }
                }
                check(got != null, "consuming did not go on in life " + life);
                c.unsubscribe();
                admin.deleteTopics(List.of(topic)).all().get();
                create(topic, 1, Map.of());
            }
        }
    }

    /** BR-016: fetches of an idle consumer are held back by the broker. */
    static void idle(String topic) throws Exception {
        create(topic, 1, Map.of());
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> c = consumer("fetch.max.wait.ms", "500")) {
            c.assign(List.of(tp));
            c.seek(tp, 0);
            long end = System.nanoTime() + 3_000_000_000L;
            while (System.nanoTime() < end) {
                c.poll(Duration.ofMillis(200));
            }
            double fetches = c.metrics().entrySet().stream().filter(e -> e.getKey().name().equals("fetch-total"))
                .mapToDouble(e -> (Double) e.getValue().metricValue()).max().orElse(-1);
            check(fetches >= 3 && fetches <= 12, fetches + " fetches in 3 s");
        }
    }

    public static void main(String[] args) throws Exception {
        broker = args[0];
        admin = Admin.create(base());
        Map<String, Check> checks = new java.util.LinkedHashMap<>();
        checks.put("defaultProducer", Clients::defaultProducer);
        checks.put("codecs", Clients::codecs);
        checks.put("offsetsForTimes", Clients::offsetsForTimes);
        checks.put("largeMessage", Clients::largeMessage);
        checks.put("tooLarge", Clients::tooLarge);
        checks.put("outOfRange", Clients::outOfRange);
        checks.put("noCreation", Clients::noCreation);
        checks.put("adminTopics", Clients::adminTopics);
        checks.put("recreated", Clients::recreated);
        checks.put("idle", Clients::idle);
        for (Map.Entry<String, Check> e : checks.entrySet()) {
            try {
                e.getValue().run(args[1] + "-" + e.getKey());
                System.out.println("ok " + e.getKey());
            } catch (Throwable t) {
                System.out.println("not ok " + e.getKey() + ": " + t + " at " + t.getStackTrace()[1]);
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
