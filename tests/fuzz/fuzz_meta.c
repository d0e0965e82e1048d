/* Frames of metadata records, applied as a start applies them. Input: length u16 and bytes of each frame, one after the other.
 *
 * Holds: applying says OK, DAMAGED, NEWER or nothing else; what was applied can be written as a snapshot, which gives an equal state; every topic that
 * came to be can be changed and deleted by what decide makes, every block of producer ids given out. T12. */
#include <string.h>

#include "base/be.h"
#include "base/limits.h"
#include "base/mem.h"
#include "fuzz.h"
#include "state/meta.h"

#define FRAME_BYTES_MAX ((size_t)8 << 20)

static struct topicconf defaults;

static struct meta *fresh(void) {
    static bool known;
    if (!known) {
        struct conf *c;
        must(conf_new(&c) == ERR_OK);
        topicconf_defaults(c, &defaults);
        conf_free(c);
        known = true;
    }
    struct meta *m;
    must(meta_new(&defaults, 4, &m) == ERR_OK);
    m->node_id = -1;
    return m;
}

static void snapshot(const struct meta *m, struct str *ret) {
    str_init(ret, FRAME_BYTES_MAX);
    must(meta_snapshot(m, ret) == ERR_OK);
}

static void same_again(const struct meta *m) {
    struct str once, twice;
    snapshot(m, &once);
    struct meta *again = fresh();
    if (once.n > 0 && !uuid_is_zero(m->cluster_id) && m->node_id >= 0) {   /* a state that any decide would make */
        must(meta_apply(again, str_span(&once)) == ERR_OK);
        must(again->topics_n == m->topics_n && again->partitions_n == m->partitions_n);
        must(again->producer_ids_next == m->producer_ids_next && again->node_id == m->node_id);
        snapshot(again, &twice);
        must(twice.n == once.n);
        str_done(&twice);
    }
    str_done(&once);
    meta_free(again);
}

static void decided(struct meta *m, err e, struct str *frame) {
    must(e == ERR_OK);
    must(meta_apply(m, str_span(frame)) == ERR_OK);
    str_done(frame);
}

/* The setting becomes 77: whatever stands there already does not keep that from happening. */
static void settle(struct meta *m, enum meta_kind kind, span name, span key) {
    struct str frame;
    char why[200];
    struct meta_conf_change change = {.name = key, .value = SPAN_LIT("77")};
    struct meta_conf in = {.kind = kind, .name = name, .changes = &change, .changes_n = 1};
    str_init(&frame, FRAME_BYTES_MAX);
    err e = meta_conf_decide(m, &in, &frame, why, sizeof why);
    must(e == ERR_OK || e == ERR_LIMIT);           /* more settings than one resource may have */
    if (e == ERR_OK) {
        must(meta_apply(m, str_span(&frame)) == ERR_OK);
    }
    str_done(&frame);
}

static void go_on(struct meta *m) {
    struct str frame;
    int64_t before = m->producer_ids_next;
    if (before < INT64_MAX - 100) {
        str_init(&frame, FRAME_BYTES_MAX);
        decided(m, meta_decide_producer_block(m, 10, &frame), &frame);
        must(m->producer_ids_next == before + 10);
    }
    while (!list_empty(&m->topics)) {
        struct meta_topic *t = list_entry(m->topics.next, struct meta_topic, link);
        must(meta_topic_by_name(m, span_str(t->name)) == t && meta_topic_by_id(m, t->id) == t);
        if (t->parts[0].leader_epoch < INT32_MAX) {
            int32_t epoch = t->parts[0].leader_epoch;
            str_init(&frame, FRAME_BYTES_MAX);
            decided(m, meta_decide_epoch(m, t, 0, &frame), &frame);
            must(t->parts[0].leader_epoch == epoch + 1);
        }
        settle(m, META_TOPIC, span_str(t->name), SPAN_LIT("retention.ms"));
        must(t->conf.retention_age == 77);
        str_init(&frame, FRAME_BYTES_MAX);
        decided(m, meta_decide_delete(m, t, &frame), &frame);
    }
    if (m->resources_n < LIMIT_RESOURCES) {
        settle(m, META_BROKER, SPAN_LIT(""), SPAN_LIT("log.retention.ms"));
        (void)meta_conf_int(m, "log.retention.ms", 0);         /* the node's own value may stand before it */
    }
    must(m->topics_n == 0 && m->partitions_n == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    struct meta *m = fresh();
    while (n >= 2) {
        size_t size = be16_get(data);
        size = size < n - 2 ? size : n - 2;
        uint8_t *exact = mem_alloc(MEM_TEST, size);            /* its own block, so that a sanitizer sees its end */
        must(exact != NULL);
        memcpy(exact, data + 2, size);
        err e = meta_apply(m, span_of(exact, size));
        mem_free(exact);
        must(e == ERR_OK || e == ERR_DAMAGED || e == ERR_NEWER);
        data += 2 + size;
        n -= 2 + size;
    }
    must(m->partitions_n >= (int64_t)m->topics_n);
    same_again(m);
    go_on(m);
    meta_free(m);
    must(mem_live(MEM_META) == 0);
    return 0;
}

/* ---- seeds: what decide makes ---- */

struct made {
    uint8_t bytes[4000];
    size_t n;
    struct meta *m;
};

static void keep(struct made *md, err e, struct str *frame) {
    must(e == ERR_OK && md->n + 2 + frame->n <= sizeof md->bytes);
    be16_put(md->bytes + md->n, (uint16_t)frame->n);
    memcpy(md->bytes + md->n + 2, frame->p, frame->n);
    md->n += 2 + frame->n;
    decided(md->m, e, frame);
}

static void create(struct made *md, const char *name, int32_t parts, uint8_t id) {
    static const struct topicconf_entry own[] = {{SPAN_LIT("retention.ms"), SPAN_LIT("1000")}, {SPAN_LIT("segment.bytes"), SPAN_LIT("100000")}};
    struct str frame;
    char why[200];
    int32_t got;
    struct meta_create c = {.name = span_str(name), .partitions = parts, .replication = 1, .id = {.b = {id, 1}}, .entries = own,
                            .entries_n = (size_t)parts % 3, .num_partitions_default = 1};
    str_init(&frame, FRAME_BYTES_MAX);
    keep(md, meta_decide_create(md->m, &c, &frame, &got, why, sizeof why), &frame);
}

static err settings(struct meta *m, enum meta_kind kind, const char *name, const char *key, struct str *frame) {
    struct meta_conf_change change = {.name = span_str(key), .value = SPAN_LIT("50000")};
    struct meta_conf in = {.kind = kind, .name = span_str(name), .changes = &change, .changes_n = 1};
    char why[200];
    return meta_conf_decide(m, &in, frame, why, sizeof why);
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    struct made md = {.m = fresh()};
    struct str frame;
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, meta_decide_format((uuid){.b = {9}}, 1, &frame), &frame);
    on(u, span_of(md.bytes, md.n));
    create(&md, "orders", 3, 1);
    create(&md, "pay.ments", 5, 2);
    on(u, span_of(md.bytes, md.n));
    create(&md, "x", 1, 3);
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, meta_decide_epoch(md.m, meta_topic_by_name(md.m, SPAN_LIT("orders")), 1, &frame), &frame);
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, meta_decide_producer_block(md.m, 1000, &frame), &frame);
    on(u, span_of(md.bytes, md.n));
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, settings(md.m, META_TOPIC, "orders", "segment.bytes", &frame), &frame);
    on(u, span_of(md.bytes, md.n));
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, settings(md.m, META_BROKER, "", "log.segment.bytes", &frame), &frame);
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, settings(md.m, META_BROKER, "1", "log.retention.ms", &frame), &frame);
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, settings(md.m, META_GROUP, "g", "consumer.session.timeout.ms", &frame), &frame);
    on(u, span_of(md.bytes, md.n));
    str_init(&frame, FRAME_BYTES_MAX);
    keep(&md, meta_decide_delete(md.m, meta_topic_by_name(md.m, SPAN_LIT("x")), &frame), &frame);
    on(u, span_of(md.bytes, md.n));
    struct made again = {.m = fresh()};            /* the whole state as one frame */
    snapshot(md.m, &frame);
    keep(&again, ERR_OK, &frame);
    on(u, span_of(again.bytes, again.n));
    meta_free(again.m);
    meta_free(md.m);
}
