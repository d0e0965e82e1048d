import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * A consumer whose fetch sessions have much to do: many partitions, small fetches, a third of them paused anew at each poll (they leave the session and come back).
 * Prints "half" when half of the records were read, and "done FETCHES" when each partition was read from its start without gap or repetition.
 *
 * <p>usage: Sessions BROKER TOPIC PARTITIONS RECORDS
 */
public class Sessions {
    public static void main(String[] args) {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[0]);
        p.put("auto.offset.reset", "none");
        p.put("enable.auto.commit", "false");
        p.put("fetch.max.bytes", "30000");
        p.put("max.partition.fetch.bytes", "8000");
        p.put("max.poll.records", "100");
        p.put("reconnect.backoff.ms", "20");
        p.put("reconnect.backoff.max.ms", "100");
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < Integer.parseInt(args[2]); i++) {
            all.add(new TopicPartition(args[1], i));
        }
        int want = Integer.parseInt(args[3]), got = 0;
        boolean half = false;
        Random random = new Random(5);
        Map<TopicPartition, Long> next = new HashMap<>();
        try (KafkaConsumer<byte[], byte[]> c = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            c.assign(all);
            c.seekToBeginning(all);
            long deadline = System.nanoTime() + 90_000_000_000L;
            while (got < want && System.nanoTime() < deadline) {
                List<TopicPartition> some = new ArrayList<>(all);
                Collections.shuffle(some, random);
                c.resume(all);
                c.pause(some.subList(0, all.size() / 3));
                for (ConsumerRecord<byte[], byte[]> r : c.poll(Duration.ofMillis(100))) {
                    TopicPartition tp = new TopicPartition(r.topic(), r.partition());
                    if (r.offset() != next.getOrDefault(tp, 0L)) {
                        System.out.println("gap: " + tp + " expected " + next.getOrDefault(tp, 0L) + " got " + r.offset());
                        System.exit(1);
                    }
                    next.put(tp, r.offset() + 1);
                    got++;
                }
                if (!half && got >= want / 2) {
                    half = true;
                    System.out.println("half");
                }
            }
            Object fetches = c.metrics().entrySet().stream().filter(e -> e.getKey().name().equals("fetch-total")).findFirst().get().getValue().metricValue();
            System.out.println(got == want ? "done " + fetches : "late: " + got + " of " + want + " " + next);
        }
    }
}
