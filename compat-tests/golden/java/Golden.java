/*
 * Golden bytes from the Java client's own message classes.
 *
 * For each API that perigee serves, each version and both directions, this writes message bodies (no header) as
 * [u32 big endian length][body]... into <out>/<api>_<req|resp>_v<N>_java.bin. Which fields a version has, and which
 * of them may be null, is read from the schema that the class carries for that version, so nothing is listed twice.
 * <name>_java_tags.bin holds pairs: a body with unknown tagged fields in every struct, then the same without them.
 *
 * usage: java -cp ... Golden.java OUT missing|all    ("missing": only versions of which OUT has no file yet)
 * Everything is drawn from fixed seeds: two runs write the same bytes.
 */
import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.lang.reflect.Field;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.BoundField;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.protocol.types.Schema;
import org.apache.kafka.common.protocol.types.TaggedFields;

public class Golden {
    /** api name, lowest and highest version of the target range. */
    static final Object[][] APIS = {
        {"Produce", 0, 13}, {"Fetch", 4, 18}, {"ListOffsets", 0, 11}, {"Metadata", 0, 13}, {"FindCoordinator", 0, 6},
        {"ApiVersions", 0, 4}, {"CreateTopics", 0, 7}, {"DeleteTopics", 0, 6}, {"InitProducerId", 0, 5},
        {"DeleteRecords", 0, 2}, {"DescribeLogDirs", 1, 4},
        {"CreatePartitions", 0, 3}, {"OffsetForLeaderEpoch", 2, 4}, {"DescribeConfigs", 0, 4}, {"AlterConfigs", 0, 2}, {"IncrementalAlterConfigs", 0, 1},
        {"ListConfigResources", 0, 1},
        {"DescribeCluster", 0, 2}, {"DescribeTopicPartitions", 0, 0},
    };

    enum Mode { DEFAULT, FILLED, NULLS, EMPTY, ONE_DEFAULT, LONG, RANDOM }

    final Mode mode;
    final boolean unknownTags;
    final Random rng;

    Golden(Mode mode, boolean unknownTags, long seed) {
        this.mode = mode;
        this.unknownTags = unknownTags;
        this.rng = new Random(seed);
    }

    // ---- filling one message by what its schema for this version says ----

    void fill(Object msg, Schema schema, int depth) throws Exception {
        if (unknownTags) {
            ((Message) msg).unknownTaggedFields().add(new RawTaggedField(40, new byte[] {1, 2, 3, (byte) depth}));
            ((Message) msg).unknownTaggedFields().add(new RawTaggedField(300, new byte[0]));
        }
        for (BoundField bf : schema.fields()) {
            if (bf.def.type instanceof TaggedFields) {
                for (var f : tagged((TaggedFields) bf.def.type)) {
                    set(msg, f.name, f.type, depth);
                }
            } else {
                set(msg, bf.def.name, bf.def.type, depth);
            }
        }
    }

    void set(Object msg, String name, org.apache.kafka.common.protocol.types.Type type, int depth) throws Exception {
        if (mode == Mode.DEFAULT) {
            return;
        }
        Field f = fieldOf(msg.getClass(), name);
        Object v = value(f.getType(), f.getGenericType(), f.get(msg), type, depth);
        f.set(msg, v);
    }

    Object value(Class<?> c, Type generic, Object dflt, org.apache.kafka.common.protocol.types.Type type, int depth)
            throws Exception {
        boolean leaf = c.isPrimitive() || c == Uuid.class;
        if (type.isNullable()
                && (mode == Mode.NULLS || mode == Mode.RANDOM && rng.nextInt(4) == 0)) {
            return null;
        }
        if (mode == Mode.ONE_DEFAULT && !Collection.class.isAssignableFrom(c)) {
            return dflt;
        }
        if (leaf && mode == Mode.RANDOM && rng.nextInt(5) == 0) {
            return dflt;
        }
        if (c == boolean.class) {
            return mode == Mode.RANDOM ? rng.nextBoolean() : !(Boolean) dflt;
        }
        if (c == byte.class) {
            return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
        }
        if (c == short.class) {
            return (short) number(Short.MIN_VALUE, Short.MAX_VALUE);
        }
        if (c == int.class) {
            return (int) number(Integer.MIN_VALUE, Integer.MAX_VALUE);
        }
        if (c == long.class) {
            return number(Long.MIN_VALUE, Long.MAX_VALUE);
        }
        if (c == Uuid.class) {
            return new Uuid(rng.nextLong(), rng.nextLong());
        }
        if (c == String.class) {
            return text();
        }
        if (c.getSimpleName().equals("BaseRecords")) {
            byte[] b = new byte[mode == Mode.EMPTY ? 0 : mode == Mode.LONG ? 300 : 1 + rng.nextInt(40)];
            rng.nextBytes(b);
            return records(c, ByteBuffer.wrap(b));
        }
        if (Collection.class.isAssignableFrom(c)) {
            return collection(c, generic, type, depth);
        }
        Object o = c.getDeclaredConstructor().newInstance();      // a struct
        fill(o, (Schema) type, depth + 1);
        return o;
    }

    @SuppressWarnings("unchecked")
    Object collection(Class<?> c, Type generic, org.apache.kafka.common.protocol.types.Type type, int depth)
            throws Exception {
        Collection<Object> out;
        Class<?> element;
        if (c == List.class) {
            out = new ArrayList<>();
            element = (Class<?>) ((ParameterizedType) generic).getActualTypeArguments()[0];
        } else {
            out = (Collection<Object>) c.getDeclaredConstructor().newInstance();
            element = (Class<?>) ((ParameterizedType) c.getGenericSuperclass()).getActualTypeArguments()[0];
        }
        var elementType = type.arrayElementType().get();
        boolean struct = elementType instanceof Schema;
        int n = switch (mode) {
            case EMPTY -> 0;
            case ONE_DEFAULT -> 1;
            case LONG -> struct ? (depth == 0 ? 2 : 1) : 130;     // 130: the compact count takes two bytes
            case RANDOM -> rng.nextInt(3);
            default -> struct && depth > 0 ? 1 + depth % 2 : 2;
        };
        for (int i = 0; i < n; i++) {
            if (struct) {
                Object o = element.getDeclaredConstructor().newInstance();
                fill(o, (Schema) elementType, depth + 1);
                out.add(o);
            } else {
                out.add(scalar(element));
            }
        }
        return out;
    }

    Object scalar(Class<?> element) {
        if (mode == Mode.ONE_DEFAULT) {
            return element == Integer.class ? (Object) 0 : element == Long.class ? (Object) 0L : element == Byte.class ? (Object) (byte) 0 : "";
        }
        if (element == Byte.class) {
            return (byte) number(Byte.MIN_VALUE, Byte.MAX_VALUE);
        }
        return element == Integer.class ? (Object) (int) number(Integer.MIN_VALUE, Integer.MAX_VALUE)
            : element == Long.class ? (Object) number(Long.MIN_VALUE, Long.MAX_VALUE)
            : mode == Mode.LONG ? "t" + rng.nextInt(10) : text();
    }

    long number(long min, long max) {
        if (mode == Mode.RANDOM) {
            long[] edge = {min, max, -1, 0, 1, 127, 128, -2};
            int k = rng.nextInt(edge.length * 2);
            if (k < edge.length) {
                return Math.max(min, Math.min(max, edge[k]));
            }
        }
        long v = rng.nextLong() & max;
        return v == 0 ? 2 : v;
    }

    String text() {
        if (mode == Mode.EMPTY) {
            return "";
        }
        if (mode == Mode.LONG) {
            return "l".repeat(126 + rng.nextInt(5));              // around the two-byte compact length
        }
        String[] pool = {"orders", "pay.ments-1", "gr\u00fc\u00dfe", "\u65e5\u672c", "a", "\ud83d\udc1f"};
        return pool[rng.nextInt(pool.length)] + rng.nextInt(100);
    }

    // ---- reflection helpers ----

    /** The record classes moved between releases: found beside the field's own type. */
    static Object records(Class<?> base, ByteBuffer b) throws Exception {
        Class<?> c = Class.forName(base.getPackageName() + ".MemoryRecords");
        return c.getMethod("readableRecords", ByteBuffer.class).invoke(null, b);
    }

    @SuppressWarnings("unchecked")
    static Collection<org.apache.kafka.common.protocol.types.Field> tagged(TaggedFields t) throws Exception {
        Field f = TaggedFields.class.getDeclaredField("fields");
        f.setAccessible(true);
        return new TreeMap<>((Map<Integer, org.apache.kafka.common.protocol.types.Field>) f.get(t)).values();
    }

    static final Map<String, Field> FIELDS = new HashMap<>();

    static Field fieldOf(Class<?> c, String snake) {
        return FIELDS.computeIfAbsent(c.getName() + "." + snake, k -> {
            for (Field f : c.getDeclaredFields()) {
                if (f.getName().replaceAll("([A-Z])", "_$1").toLowerCase().equals(snake)) {
                    f.setAccessible(true);
                    return f;
                }
            }
            throw new IllegalStateException("no field for " + k);
        });
    }

    static byte[] encode(ApiMessage m, short version) throws Exception {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buf = ByteBuffer.allocate(m.size(cache, version));
        m.write(new ByteBufferAccessor(buf), cache, version);
        if (buf.hasRemaining()) {
            throw new IllegalStateException("size and write disagree");
        }
        ApiMessage back = m.getClass().getDeclaredConstructor().newInstance();
        back.read(new ByteBufferAccessor(ByteBuffer.wrap(buf.array())), version);
        if (!back.equals(m)) {
            throw new IllegalStateException("read back differs: " + m + " / " + back);
        }
        return buf.array();
    }

    static byte[] body(Class<?> c, Schema schema, short version, Mode mode, boolean tags, long seed) throws Exception {
        ApiMessage m = (ApiMessage) c.getDeclaredConstructor().newInstance();
        new Golden(mode, tags, seed).fill(m, schema, 0);
        return encode(m, version);
    }

    static void put(DataOutputStream out, byte[] b) throws Exception {
        out.writeInt(b.length);
        out.write(b);
    }

    static int key(String s) {
        return s.hashCode();
    }

    static boolean flexible(Schema s) {
        for (BoundField f : s.fields()) {
            if (f.def.type instanceof TaggedFields) {
                return true;
            }
        }
        return false;
    }

    static void one(Path dir, String api, String dirName, Class<?> c, Schema s, short v, boolean missing) throws Exception {
        String stem = api.toLowerCase() + "_" + dirName + "_v" + v + "_java";
        Path file = dir.resolve(stem + ".bin");
        if (missing && Files.exists(file)) {
            return;
        }
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        for (Mode m : Mode.values()) {
            for (int i = 0; i < (m == Mode.RANDOM ? 5 : 1); i++) {
                put(out, body(c, s, v, m, false, key(stem) + i));
            }
        }
        Files.write(file, bytes.toByteArray());
        if (flexible(s)) {
            bytes = new ByteArrayOutputStream();
            out = new DataOutputStream(bytes);
            for (Mode m : new Mode[] {Mode.DEFAULT, Mode.FILLED}) {
                put(out, body(c, s, v, m, true, key(stem)));
                put(out, body(c, s, v, m, false, key(stem)));
            }
            Files.write(dir.resolve(stem + "_tags.bin"), bytes.toByteArray());
        }
    }

    /** Null: an older client, which need not know every API. */
    static Class<?> find(String name, boolean older) throws ClassNotFoundException {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException e) {
            if (older) {
                return null;
            }
            throw e;
        }
    }

    public static void main(String[] args) throws Exception {
        Path dir = Path.of(args[0]);
        boolean missing = args[1].equals("missing");
        for (Object[] a : APIS) {
            for (String kind : new String[] {"Request", "Response"}) {
                Class<?> c = find("org.apache.kafka.common.message." + a[0] + kind + "Data", missing);
                if (c == null) {
                    continue;
                }
                Schema[] schemas = (Schema[]) c.getField("SCHEMAS").get(null);
                for (int v = (Integer) a[1]; v <= (Integer) a[2]; v++) {
                    if (v < schemas.length && schemas[v] != null) {
                        one(dir, (String) a[0], kind.equals("Request") ? "req" : "resp", c, schemas[v], (short) v, missing);
                    }
                }
            }
        }
    }
}
