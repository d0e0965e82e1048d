import java.io.FileOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;

import org.apache.kafka.tools.consumer.ConsoleConsumer;
import org.apache.kafka.tools.consumer.ConsoleConsumerOptions;

/**
 * Kafka's own console consumer, once per partition in one JVM (its start-up costs more than the reading).
 *
 * <p>usage: ConsoleLoop BROKER TOPIC OUTDIR PARTITION:COUNT... — as kafka-console-consumer --partition N --offset earliest
 * --max-messages COUNT with keys, into OUTDIR/N.
 */
public class ConsoleLoop {
    public static void main(String[] args) throws Exception {
        PrintStream console = System.out;
        Field count = ConsoleConsumer.class.getDeclaredField("messageCount");
        count.setAccessible(true);
        for (int i = 3; i < args.length; i++) {
            String[] part = args[i].split(":");
            if (part[1].equals("0")) {
                new FileOutputStream(args[2] + "/" + part[0]).close();
                continue;
            }
            count.setInt(null, 0);
            try (PrintStream out = new PrintStream(new FileOutputStream(args[2] + "/" + part[0]), false, "UTF-8")) {
                System.setOut(out);
                ConsoleConsumer.run(new ConsoleConsumerOptions(new String[] {
                    "--bootstrap-server", args[0], "--topic", args[1], "--partition", part[0], "--offset", "earliest",
                    "--max-messages", part[1], "--timeout-ms", "60000", "--formatter-property", "print.key=true"}));
            }
            System.setOut(console);
            if (count.getInt(null) != Integer.parseInt(part[1])) {
                System.err.println("partition " + part[0] + ": " + count.getInt(null) + " of " + part[1]);
                System.exit(1);
            }
        }
        Runtime.getRuntime().halt(0);                 // the tools' shutdown hooks wait for consumers that have ended
    }
}
