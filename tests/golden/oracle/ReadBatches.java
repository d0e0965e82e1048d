/*
 * Reads the batches of write_batches with the Java client's reader and compares every record with what the same small
 * generator draws here. usage: java -cp ... ReadBatches.java FILE
 */
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;

public class ReadBatches {
    static int state;

    static int next() {
        state = state * 1664525 + 1013904223;
        return state >>> 8;
    }

    static byte[] draw(int max) {
        int kind = next() % 8;
        if (kind == 0) {
            return null;
        }
        byte[] b = new byte[kind == 1 ? 0 : next() % max];
        byte same = (byte) next();
        for (int i = 0; i < b.length; i++) {
            b[i] = kind < 5 ? same : (byte) next();
        }
        return b;
    }

    static void same(String what, byte[] want, ByteBuffer got) {
        if (want == null ? got != null : got == null || !ByteBuffer.wrap(want).equals(got)) {
            throw new IllegalStateException(what + " differs");
        }
    }

    static int judge(ByteBuffer bytes, int records, int valueMax) {
        int n = 0;
        state = 7 + records;
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(bytes).batches()) {
            batch.ensureValid();
            for (Record r : batch) {
                byte[] header = draw(20), key = draw(50), value = draw(valueMax);
                same("header", header, r.headers()[0].value() == null ? null : ByteBuffer.wrap(r.headers()[0].value()));
                same("key", key, r.key());
                same("value", value, r.value());
                if (r.timestamp() != 1700000000000L + next() % 1000 || r.offset() != n || r.sequence() != n) {
                    throw new IllegalStateException("timestamp, offset or sequence differs");
                }
                n++;
            }
        }
        if (n != records) {
            throw new IllegalStateException(n + " records, not " + records);
        }
        return n;
    }

    public static void main(String[] args) throws Exception {
        ByteBuffer all = ByteBuffer.wrap(Files.readAllBytes(Path.of(args[0])));
        int[][] shapes = {{1, 10}, {50, 300}, {2000, 3000}};
        int batches = 0, records = 0;
        for (; all.hasRemaining(); batches++) {
            int n = all.getInt();
            ByteBuffer one = all.slice(all.position(), n);
            all.position(all.position() + n);
            records += judge(one, shapes[batches % 3][0], shapes[batches % 3][1]);
        }
        if (batches != 15) {
            throw new IllegalStateException(batches + " batches, not 15");
        }
        System.out.println("oracle: the Java client reads " + batches + " batches, " + records + " records");
    }
}
