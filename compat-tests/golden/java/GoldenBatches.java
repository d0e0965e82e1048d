/*
 * Golden record batches (format v2) written by the Java client's own builder.
 *
 * <out>/batch_<name>.bin is one [u32 big endian length][batch]; <out>/batch_<name>.txt says what a reader must find in it:
 * one line of header facts, then per record "offset timestamp key value headers" (hex, "-" for null, "" written as ".").
 * The expectation is written from what went in, not from reading the batch back.
 *
 * usage: java -cp ... GoldenBatches.java OUT
 */
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Random;
import java.util.zip.CRC32C;

import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;

public class GoldenBatches {
    record Rec(long timestamp, byte[] key, byte[] value, Header[] headers) { }

    record Shape(String name, Compression codec, TimestampType type, long baseOffset, long appendTime, long producerId, short epoch,
                 int sequence, boolean transactional, int leaderEpoch) {
        Shape(String name, Compression codec) {
            this(name, codec, TimestampType.CREATE_TIME, 0, -1, -1, (short) -1, -1, false, -1);
        }
    }

    static final long T0 = 1_700_000_000_000L;
    static Path dir;

    static String hex(byte[] b) {
        return b == null ? "-" : b.length == 0 ? "." : HexFormat.of().formatHex(b);
    }

    static String line(long offset, Rec r) {
        StringBuilder s = new StringBuilder(offset + " " + r.timestamp + " " + hex(r.key) + " " + hex(r.value));
        for (Header h : r.headers) {
            s.append(' ').append(hex(h.key().getBytes())).append('=').append(hex(h.value()));
        }
        return s.toString();
    }

    static List<Rec> records() {
        List<Rec> l = new ArrayList<>();
        Header[] none = new Header[0];
        l.add(new Rec(T0, "key".getBytes(), "value".getBytes(), none));
        l.add(new Rec(T0 + 5, null, "no key".getBytes(), none));
        l.add(new Rec(T0 - 3, "tombstone".getBytes(), null, none));
        l.add(new Rec(T0 + 100_000, new byte[0], new byte[0], none));
        l.add(new Rec(T0 + 7, "h".getBytes(), "v".getBytes(), new Header[] {
            new RecordHeader("a", "1".getBytes()), new RecordHeader("a", null), new RecordHeader("empty", new byte[0])}));
        byte[] big = new byte[200];
        new Random(7).nextBytes(big);
        l.add(new Rec(T0 + 8, "big".getBytes(), big, none));
        byte[] flat = new byte[500];
        l.add(new Rec(T0 + 9, "flat".getBytes(), flat, none));
        return l;
    }

    static void write(String name, byte[] batch, String facts, List<String> lines) throws Exception {
        try (DataOutputStream out = new DataOutputStream(Files.newOutputStream(dir.resolve("batch_" + name + ".bin")))) {
            out.writeInt(batch.length);
            out.write(batch);
        }
        List<String> all = new ArrayList<>(List.of(facts));
        all.addAll(lines);
        Files.write(dir.resolve("batch_" + name + ".txt"), all);
    }

    static String facts(Shape s, int attributes, int count, long maxTimestamp) {
        return "base_offset=" + s.baseOffset + " leader_epoch=" + s.leaderEpoch + " attributes=" + attributes + " count=" + count
            + " base_timestamp=" + T0 + " max_timestamp=" + maxTimestamp + " producer_id=" + s.producerId
            + " producer_epoch=" + s.epoch + " base_sequence=" + s.sequence;
    }

    static byte[] build(Shape s, List<Rec> recs) {
        MemoryRecordsBuilder b = MemoryRecords.builder(ByteBuffer.allocate(8192), (byte) 2, s.codec, s.type, s.baseOffset,
            s.appendTime, s.producerId, s.epoch, s.sequence, s.transactional, s.leaderEpoch);
        for (Rec r : recs) {
            b.append(r.timestamp, r.key, r.value, r.headers);
        }
        ByteBuffer out = b.build().buffer();
        byte[] batch = new byte[out.remaining()];
        out.get(batch);
        return batch;
    }

    static void one(Shape s, List<Rec> recs, int attributes) throws Exception {
        boolean logTime = s.type == TimestampType.LOG_APPEND_TIME;
        List<String> lines = new ArrayList<>();
        long max = logTime ? s.appendTime : Long.MIN_VALUE;
        for (int i = 0; i < recs.size(); i++) {
            Rec r = recs.get(i);
            max = Math.max(max, r.timestamp);
            lines.add(line(s.baseOffset + i, logTime ? new Rec(s.appendTime, r.key, r.value, r.headers) : r));
        }
        write(s.name, build(s, recs), facts(s, attributes, recs.size(), logTime ? s.appendTime : max), lines);
    }

    /** librdkafka and others send one raw snappy block, without the xerial framing that Java writes. */
    static void snappyRaw() throws Exception {
        Shape s = new Shape("snappy_raw", Compression.NONE);
        byte[] plain = build(s, records());
        byte[] packed = org.xerial.snappy.Snappy.compress(java.util.Arrays.copyOfRange(plain, 61, plain.length));
        ByteBuffer b = ByteBuffer.allocate(61 + packed.length);
        b.put(plain, 0, 61).put(packed);
        b.putInt(8, b.capacity() - 12).putShort(21, (short) 2);
        CRC32C crc = new CRC32C();
        crc.update(b.array(), 21, b.capacity() - 21);
        b.putInt(17, (int) crc.getValue());
        List<String> lines = new ArrayList<>();
        for (int i = 0; i < records().size(); i++) {
            lines.add(line(i, records().get(i)));
        }
        write(s.name, b.array(), facts(s, 2, records().size(), T0 + 100_000), lines);
    }

    static void marker(String name, ControlRecordType type) throws Exception {
        ByteBuffer out = MemoryRecords.withEndTransactionMarker(900, T0, 4, 77, (short) 3, new EndTransactionMarker(type, 12)).buffer();
        byte[] batch = new byte[out.remaining()];
        out.get(batch);
        String key = type == ControlRecordType.ABORT ? "00000000" : "00000001";
        write(name, batch, "base_offset=900 leader_epoch=4 attributes=48 count=1 base_timestamp=" + T0 + " max_timestamp=" + T0
            + " producer_id=77 producer_epoch=3 base_sequence=-1", List.of("900 " + T0 + " " + key + " 00000000000c"));
    }

    public static void main(String[] args) throws Exception {
        dir = Path.of(args[0]);
        List<Rec> r = records();
        one(new Shape("none", Compression.NONE), r, 0);
        one(new Shape("gzip", Compression.gzip().build()), r, 1);
        one(new Shape("snappy_xerial", Compression.snappy().build()), r, 2);
        one(new Shape("lz4", Compression.lz4().build()), r, 3);
        one(new Shape("zstd", Compression.zstd().build()), r, 4);
        snappyRaw();
        one(new Shape("idempotent", Compression.NONE, TimestampType.CREATE_TIME, 1L << 33, -1, 1L << 40, (short) 5,
            Integer.MAX_VALUE - 2, false, 9), r, 0);
        one(new Shape("transactional", Compression.lz4().build(), TimestampType.CREATE_TIME, 41, -1, 1234, (short) 0, 0, true, 2), r, 0x13);
        one(new Shape("log_append_time", Compression.NONE, TimestampType.LOG_APPEND_TIME, 100, T0 + 424_242, -1, (short) -1, -1,
            false, 1), r, 8);
        one(new Shape("single", Compression.NONE), r.subList(0, 1), 0);
        marker("commit", ControlRecordType.COMMIT);
        marker("abort", ControlRecordType.ABORT);
    }
}
