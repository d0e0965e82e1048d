import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.Exit;

/**
 * Kafka's own tools, one call after another in one JVM (its start-up costs more than the calls).
 *
 * <p>A line on standard input is a call: the class and its arguments, each in base64, with spaces between. A line on standard output is its end: the exit status and what it
 * printed (both streams), in base64.
 */
public class Tools {
    static class Ended extends RuntimeException {
        Ended() {
            super("exit", null, false, false);
        }
    }

    static Integer status;                            // of the first exit: some tools catch what ends them, and exit again
    static byte[] printed;                            // by then
    static ByteArrayOutputStream said;

    static void end(int with, String message) {
        if (message != null) {
            System.err.println(message);
        }
        if (status == null) {
            status = with;
            printed = said.toByteArray();
        }
        throw new Ended();
    }

    static int call(String name, String[] args) throws Exception {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) args);
            return status == null ? 0 : status;
        } catch (InvocationTargetException e) {
            if (status != null) {
                return status;
            }
            e.getCause().printStackTrace();
            return 1;
        }
    }

    public static void main(String[] unused) throws Exception {
        PrintStream out = System.out, err = System.err;
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Exit.setExitProcedure(Tools::end);
        Exit.setHaltProcedure(Tools::end);
        for (String line; (line = in.readLine()) != null;) {
            String[] words = Arrays.stream(line.split(" ", -1)).map(w -> new String(Base64.getDecoder().decode(w), StandardCharsets.UTF_8)).toArray(String[]::new);
            said = new ByteArrayOutputStream();
            status = null;
            printed = null;
            PrintStream to = new PrintStream(said, true, StandardCharsets.UTF_8);
            System.setOut(to);
            System.setErr(to);
            int end = call(words[0], Arrays.copyOfRange(words, 1, words.length));
            System.setOut(out);
            System.setErr(err);
            out.println(end + " " + Base64.getEncoder().encodeToString(printed != null ? printed : said.toByteArray()));
            out.flush();
        }
        Runtime.getRuntime().halt(0);
    }
}
