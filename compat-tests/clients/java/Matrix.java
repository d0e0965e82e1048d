import java.io.BufferedWriter;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndTimestamp;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.utils.AppInfoParser;

/** The matrix program on kafka-clients; the contract is ../README.md. One source, compiled against each version. */
public class Matrix {
    interface Step {
        void run(JsonNode step, ObjectNode answer) throws Exception;
    }

    static final ObjectMapper JSON = new ObjectMapper();
    static final Map<String, Step> STEPS = new HashMap<>();
    static String broker;
    static long limitMs;
    static int number;
    static BufferedWriter out;
    static Admin admin;

    static Properties base() {
        Properties p = new Properties();
        p.put("bootstrap.servers", broker);
        p.put("request.timeout.ms", String.valueOf(Math.min(limitMs, 30_000)));
        return p;
    }

    static <T> T get(KafkaFuture<T> f) throws Exception {
        return f.get(limitMs, TimeUnit.MILLISECONDS);
    }

    static void write(ObjectNode line) throws Exception {
        out.write(JSON.writeValueAsString(line));
        out.write('\n');
    }

    static String topic(JsonNode step) {
        return step.get("topic").asText();
    }

    static Map<String, String> settings(JsonNode step) {
        Map<String, String> configs = new HashMap<>();
        step.get("configs").fields().forEachRemaining(e -> configs.put(e.getKey(), e.getValue().asText()));
        return configs;
    }

    static List<TopicPartition> partitions(JsonNode step, int n) {
        List<TopicPartition> parts = new ArrayList<>();
        for (int p = 0; p < n; p++) {
            parts.add(new TopicPartition(topic(step), p));
        }
        return parts;
    }

    static byte[] bytes(JsonNode node) {
        return node.isNull() ? null : Base64.getDecoder().decode(node.asText());
    }

    static String coded(byte[] data) {
        return data == null ? null : Base64.getEncoder().encodeToString(data);
    }

    // ---- topics ----

    static void create(JsonNode step, ObjectNode answer) throws Exception {
        NewTopic topic = new NewTopic(topic(step), Optional.of(step.get("partitions").asInt()), Optional.of((short) 1));
        get(admin.createTopics(List.of(topic.configs(settings(step)))).all());
    }

    static void list(JsonNode step, ObjectNode answer) throws Exception {
        ArrayNode topics = answer.putArray("topics");
        get(admin.listTopics().names()).forEach(topics::add);
    }

    static void describe(JsonNode step, ObjectNode answer) throws Exception {
        answer.put("partitions", get(admin.describeTopics(List.of(topic(step))).allTopicNames()).get(topic(step)).partitions().size());
    }

    static void delete(JsonNode step, ObjectNode answer) throws Exception {
        get(admin.deleteTopics(List.of(topic(step))).all());
    }

    static void grow(JsonNode step, ObjectNode answer) throws Exception {
        get(admin.createPartitions(Map.of(topic(step), NewPartitions.increaseTo(step.get("partitions").asInt()))).all());
    }

    static void configs(JsonNode step, ObjectNode answer) throws Exception {
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, topic(step));
        ObjectNode configs = answer.putObject("configs");
        get(admin.describeConfigs(List.of(topic)).all()).get(topic).entries().forEach(e -> configs.put(e.name(), e.value()));
    }

    static void alter(JsonNode step, ObjectNode answer) throws Exception {
        List<AlterConfigOp> ops = new ArrayList<>();
        settings(step).forEach((name, value) -> ops.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
        Map<ConfigResource, Collection<AlterConfigOp>> all = Map.of(new ConfigResource(ConfigResource.Type.TOPIC, topic(step)), ops);
        get(admin.incrementalAlterConfigs(all).all());
    }

    static void trim(JsonNode step, ObjectNode answer) throws Exception {
        Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
        List<TopicPartition> parts = partitions(step, step.get("offsets").size());
        for (TopicPartition tp : parts) {
            before.put(tp, RecordsToDelete.beforeOffset(step.get("offsets").get(tp.partition()).asLong()));
        }
        var told = admin.deleteRecords(before).lowWatermarks();
        ArrayNode low = answer.putArray("low");
        for (TopicPartition tp : parts) {
            low.add(get(told.get(tp)).lowWatermark());
        }
    }

    static void offsets(JsonNode step, ObjectNode answer) throws Exception {
        List<TopicPartition> parts = partitions(step, step.get("partitions").asInt());
        ends(parts, OffsetSpec.earliest(), answer.putArray("earliest"));
        ends(parts, OffsetSpec.latest(), answer.putArray("latest"));
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            Map<TopicPartition, Long> first = c.beginningOffsets(parts);
            Map<TopicPartition, Long> end = c.endOffsets(parts);
            for (TopicPartition tp : parts) {
                boolean same = first.get(tp) == answer.get("earliest").get(tp.partition()).asLong()
                    && end.get(tp) == answer.get("latest").get(tp.partition()).asLong();
                if (!same) {
                    throw new IllegalStateException("Admin and consumer see different ends: " + answer + " " + first + " " + end);
                }
            }
        }
    }

    static void ends(List<TopicPartition> parts, OffsetSpec spec, ArrayNode into) throws Exception {
        Map<TopicPartition, OffsetSpec> ask = new HashMap<>();
        parts.forEach(tp -> ask.put(tp, spec));
        var told = get(admin.listOffsets(ask).all());
        parts.forEach(tp -> into.add(told.get(tp).offset()));
    }

    // ---- records ----

    static ProducerRecord<byte[], byte[]> record(String topic, JsonNode r) {
        ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, r.get("p").asInt(), r.get("t").asLong(), bytes(r.get("k")), bytes(r.get("v")));
        r.get("h").forEach(h -> record.headers().add(h.get(0).asText(), bytes(h.get(1))));
        return record;
    }

    static void produce(JsonNode step, ObjectNode answer) throws Exception {
        Properties p = base();
        p.put("compression.type", step.get("codec").asText());
        p.put("acks", step.get("acks").asText());
        p.put("enable.idempotence", step.get("idempotent").asText());
        p.put("linger.ms", step.get("linger_ms").asText());
        p.put("delivery.timeout.ms", String.valueOf(limitMs + 30_000));
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
            for (String line : Files.readAllLines(Path.of(step.get("records").asText()))) {
                sent.add(producer.send(record(topic(step), JSON.readTree(line))));
            }
            producer.flush();
            ArrayNode offsets = answer.putArray("offsets");
            for (Future<RecordMetadata> f : sent) {
                RecordMetadata told = f.get(limitMs, TimeUnit.MILLISECONDS);
                offsets.add(told.hasOffset() ? told.offset() : -1);
            }
        }
    }

    static KafkaConsumer<byte[], byte[]> consumer() {
        Properties p = base();
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        p.put("check.crcs", "true");
        p.put("fetch.max.wait.ms", "100");
        return new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static long[] starts(KafkaConsumer<byte[], byte[]> c, JsonNode step, List<TopicPartition> parts) {
        long[] starts = new long[parts.size()];
        if (step.get("from").asText().equals("time")) {
            Map<TopicPartition, Long> ask = new HashMap<>();
            parts.forEach(tp -> ask.put(tp, step.get("time").asLong()));
            Map<TopicPartition, OffsetAndTimestamp> told = c.offsetsForTimes(ask);
            parts.forEach(tp -> starts[tp.partition()] = told.get(tp) == null ? -1 : told.get(tp).offset());
        } else if (step.get("from").asText().equals("offsets")) {
            parts.forEach(tp -> starts[tp.partition()] = step.get("offsets").get(tp.partition()).asLong());
        }
        return starts;
    }

    static void writeRecord(ConsumerRecord<byte[], byte[]> r) throws Exception {
        ObjectNode line = JSON.createObjectNode().put("step", number).put("p", r.partition()).put("o", r.offset()).put("t", r.timestamp());
        line.put("k", coded(r.key())).put("v", coded(r.value()));
        ArrayNode headers = line.putArray("h");
        for (Header h : r.headers()) {
            headers.addArray().add(h.key()).add(coded(h.value()));
        }
        write(line);
    }

    static void consume(JsonNode step, ObjectNode answer) throws Exception {
        JsonNode until = step.get("until");
        List<TopicPartition> parts = partitions(step, until.size());
        long deadline = System.nanoTime() + limitMs * 1_000_000;
        try (KafkaConsumer<byte[], byte[]> c = consumer()) {
            long[] starts = starts(c, step, parts);
            Set<TopicPartition> open = new HashSet<>(parts);
            open.removeIf(tp -> starts[tp.partition()] < 0 || starts[tp.partition()] >= until.get(tp.partition()).asLong());
            c.assign(open);
            if (step.get("from").asText().equals("earliest")) {
                c.seekToBeginning(open);
            } else {
                open.forEach(tp -> c.seek(tp, starts[tp.partition()]));
            }
            while (!open.isEmpty()) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(open + " did not come to their ends");
                }
                for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofMillis(500))) {
                    writeRecord(r);
                    if (r.offset() + 1 >= until.get(r.partition()).asLong()) {
                        open.remove(new TopicPartition(r.topic(), r.partition()));
                    }
                }
            }
            ArrayNode start = answer.putArray("start");
            for (long s : starts) {
                start.add(s);
            }
        }
    }

    // ---- the plan ----

    static void one(JsonNode step) throws Exception {
        ObjectNode answer = JSON.createObjectNode().put("step", number);
        Step known = STEPS.get(step.get("do").asText());
        if (known == null) {
            write(answer.put("skip", "no such call"));
            return;
        }
        try {
            known.run(step, answer);
            answer.put("ok", true);
        } catch (Exception e) {
            e.printStackTrace();
            answer.put("ok", false).put("error", e.toString());
        }
        write(answer);
        out.flush();
    }

    public static void main(String[] args) throws Exception {
        STEPS.putAll(Map.of("create", Matrix::create, "list", Matrix::list, "describe", Matrix::describe, "delete", Matrix::delete,
            "grow", Matrix::grow, "configs", Matrix::configs, "alter", Matrix::alter, "trim", Matrix::trim, "offsets", Matrix::offsets));
        STEPS.put("produce", Matrix::produce);
        STEPS.put("consume", Matrix::consume);
        JsonNode plan = JSON.readTree(Files.readAllBytes(Path.of(args[0])));
        broker = plan.get("broker").asText();
        limitMs = plan.get("limit_s").asLong() * 1000;
        out = Files.newBufferedWriter(Path.of(plan.get("out").asText()), StandardCharsets.UTF_8);
        write(JSON.createObjectNode().put("client", "kafka-clients").put("version", AppInfoParser.getVersion()));
        admin = Admin.create(base());
        for (JsonNode step : plan.get("steps")) {
            one(step);
            number++;
        }
        admin.close(Duration.ofSeconds(5));
        out.close();
    }
}
