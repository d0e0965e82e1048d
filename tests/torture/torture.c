/* Goal: one allocation, or one request of the disk, that fails somewhere in a broker's life takes nothing away that was promised (T66, T13, T16).
 *
 * Method: a short life, from the start over the work of a few clients to the clean stop, on the simulated machine; its n-th allocation fails, or its
 * n-th disk request with each kind of error that such a request can have; for n = 1, 2, ... until the life runs through untouched. Each request
 * is answered or its connection ends, never neither; who tries again is served (behind an error of the disk perhaps only after a restart); the
 * process may end itself with a word. Then the broker starts once more without trouble: what was acknowledged is there, once where that is
 * promised; what was created exists, what was deleted does not. The world finds what is left over at each clean end, a sanitizer the rest.
 *
 *     torture          all n, some hundred each
 *     torture --n N    that n only, with CK_FORK=no for a debugger */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/must.h"
#include "base/run.h"
#include "say.h"
#include "wire/k_api_versions.h"
#include "wire/k_create_partitions.h"
#include "wire/k_delete_records.h"
#include "wire/k_describe_cluster.h"
#include "wire/k_describe_configs.h"
#include "wire/k_describe_log_dirs.h"
#include "wire/k_describe_topic_partitions.h"
#include "wire/k_incremental_alter_configs.h"

#define TRIES 8
#define KEPT_MAX 32
#define BATCH_BYTES 700

enum kind { ALLOCATION, DISK_IO, DISK_NOSPACE, DISK_LIMIT, DISK_NOMEM, KINDS };
static const char *const kind_names[] = {"allocation", "disk-io", "disk-nospace", "disk-limit", "disk-nomem"};

static uint64_t only;

struct kept {                          /* a batch that was sent */
    struct say_to to;
    uint8_t fill;                      /* its values' bytes */
    int16_t acks;
    bool acked, idempotent;
    int64_t base;
    int copies;                        /* found at the end */
};

struct life {
    struct rig r;
    struct say *s;
    enum kind kind;
    uint64_t n, seen;                  /* which one fails; disk requests of this kind so far */
    bool armed, struck;
    char struck_at[120];
    struct kept kept[KEPT_MAX];
    size_t kept_n;
    bool created, deleted, grown, trimmed;         /* told so */
    int64_t pid;
};

/* ---- trouble ---- */

static bool can_fail(enum kind kind, enum disk_op op) {
    switch (kind) {
    case DISK_NOSPACE:
        return op == DISK_WRITE || op == DISK_PUT || op == DISK_MKDIR || op == DISK_RENAME || op == DISK_OPEN;
    case DISK_LIMIT:
        return op == DISK_OPEN || op == DISK_LIST || op == DISK_PUT;
    case DISK_NOMEM:
    case DISK_IO:
        return op != DISK_CLOSE && op != DISK_LOCK;
    default:
        return false;
    }
}

static bool on_op(void *u, const struct disk_req *rq, const char *path) {
    static const err errors[] = {[DISK_IO] = ERR_IO, [DISK_NOSPACE] = ERR_NOSPACE, [DISK_LIMIT] = ERR_LIMIT, [DISK_NOMEM] = ERR_NOMEM};
    struct life *lf = u;
    if (lf->armed && can_fail(lf->kind, rq->op) && ++lf->seen == lf->n) {
        world_node_fail_op(lf->r.n, rq->op, 1, errors[lf->kind]);      /* this very one */
        lf->struck = true;
        (void)snprintf(lf->struck_at, sizeof lf->struck_at, "operation %d on '%s'", (int)rq->op, path ? path : "");
    }
    return false;
}

static void arm(struct life *lf) {
    lf->armed = true;
    if (lf->kind == ALLOCATION) {
        mem_fail_nth_tracked(lf->n);
    } else {
        world_node_on_op(lf->r.n, on_op, lf, false);
    }
}

static void disarm(struct life *lf) {
    lf->armed = false;
    if (lf->kind == ALLOCATION) {
        lf->struck = mem_fail_left() == 0;
        mem_fail_nth_tracked(0);
    } else {
        world_node_on_op(lf->r.n, NULL, NULL, false);
    }
}

#define check(cond, ...) ck_assert_msg(cond, __VA_ARGS__)
#define WHERE "%s %lu (%s)", kind_names[lf->kind], lf->n, lf->struck_at

/* ---- the process ---- */

/* An end by itself has a word to it. */
static void may_have_ended(struct life *lf) {
    if (world_node_is_up(lf->r.n)) {
        return;
    }
    const struct rig *r = &lf->r;
    check(r->is_fatal || r->boot != ERR_OK || r->ready != ERR_OK, WHERE);
    check(r->why[0] != 0 || r->ready != ERR_OK, WHERE);            /* that one's err says it */
    const char *word = r->why[0] != 0 ? r->why : err_text(r->ready);
    check(lf->kind != ALLOCATION || strstr(word, "memory") != NULL, "%s %lu: %s", kind_names[lf->kind], lf->n, word);
}

static void bring_up(struct life *lf) {
    for (int i = 0; i < TRIES; i++) {
        rig_boot(&lf->r);
        if (rig_wait_ready(&lf->r)) {
            return;
        }
        may_have_ended(lf);
    }
    ck_abort_msg("%s %lu: no start: %s", kind_names[lf->kind], lf->n, lf->r.why);
}

static void stop_now(void *u) {
    struct rig *r = u;
    r->node->shards[0]->port->net->listener_close(r->bell);
    node_stop(r->node);
}

static bool is_down(void *u) { return !world_node_is_up(((struct rig *)u)->n); }

static void stop(struct life *lf) {
    if (!world_node_is_up(lf->r.n)) {
        may_have_ended(lf);
        return;
    }
    if (world_node_call(lf->r.n, 0, stop_now, &lf->r)) {
        check(world_run(lf->r.w, is_down, &lf->r, 60000), "%s %lu (%s): does not stop", kind_names[lf->kind], lf->n, lf->struck_at);
    }
    check(lf->r.is_stopped || lf->r.is_fatal, WHERE);
}

/* ---- the client ---- */

static bool is_settled(void *u) {
    const struct say *s = u;
    return s->up || s->down;
}

static void hang_up(struct life *lf) {
    if (lf->s != NULL) {
        say_close(lf->s);
        lf->s = NULL;
    }
}

static struct say *connected(struct life *lf) {
    for (int i = 0; i < TRIES * 2; i++) {
        if (!world_node_is_up(lf->r.n)) {
            may_have_ended(lf);
            hang_up(lf);
            bring_up(lf);
        }
        if (lf->s != NULL && !lf->s->down) {
            return lf->s;
        }
        hang_up(lf);
        lf->s = say_knock(&lf->r);
        check(world_run(lf->r.w, is_settled, lf->s, 60000), WHERE);
    }
    ck_abort_msg("%s %lu (%s): no connection", kind_names[lf->kind], lf->n, lf->struck_at);
    return NULL;
}

/* The answer to what was sent; NULL: the connection or the process ended instead. */
static const void *answer(struct life *lf) {
    if (say_await(lf->s, 60000)) {
        return say_take(lf->s);
    }
    check(lf->s->down || !world_node_is_up(lf->r.n), "%s %lu (%s): neither answer nor end", kind_names[lf->kind], lf->n, lf->struck_at);
    return NULL;
}

/* An answer with an error, or none: one more try? Only the disk may say no for long. */
static bool once_more(struct life *lf, int tries, const char *what, int code) {
    bool patient = lf->kind != ALLOCATION;
    check(tries < TRIES || patient, "%s %lu (%s): %s: still code %d", kind_names[lf->kind], lf->n, lf->struck_at, what, code);
    check(code <= 0 || code == 56 || code == 3 || code == 7, "%s %lu (%s): %s: code %d", kind_names[lf->kind], lf->n, lf->struck_at,
          what, code);
    rig_run(&lf->r, 150);
    return tries < TRIES;
}

static void produce(struct life *lf, struct say_to to, int16_t acks, int32_t sequence) {
    struct kept *k = &lf->kept[lf->kept_n];
    must(lf->kept_n < KEPT_MAX);
    *k = (struct kept){.to = to, .fill = (uint8_t)('A' + lf->kept_n++), .acks = acks, .idempotent = sequence >= 0};
    for (int tries = 0;; tries++) {
        struct say *s = connected(lf);
        struct say_batch b = {.value_n = BATCH_BYTES, .fill = k->fill, .ts = 1700000000000 + (int64_t)lf->kept_n};
        if (sequence >= 0) {
            b.pid = lf->pid + 1;
            b.seq = sequence;
        }
        say_produce(s, to, acks, say_batch(s, &b));
        if (acks == 0) {
            rig_run(&lf->r, 50);
            return;
        }
        const struct k_produce_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->topics[0].partitions[0].error_code;
        if (code == 0) {
            k->acked = true;
            k->base = m->topics[0].partitions[0].base_offset;
            return;
        }
        if (!once_more(lf, tries, "produce", code)) {
            return;
        }
    }
}

static void init_producer(struct life *lf) {
    for (int tries = 0;; tries++) {
        struct say *s = connected(lf);
        struct k_init_producer_id_req q;
        k_init_producer_id_req_init(&q);
        q.transactional_id = SPAN_NULL;
        say_send(s, K_INIT_PRODUCER_ID, 4, &q);
        const struct k_init_producer_id_resp *m = answer(lf);
        if (m != NULL && m->error_code == 0) {
            lf->pid = m->producer_id;
            return;
        }
        if (!once_more(lf, tries, "producer id", m ? m->error_code : -1)) {
            lf->pid = 4242;            /* a log takes any */
            return;
        }
    }
}

static const struct kept *kept_as(struct life *lf, uint8_t fill) {
    size_t i = (size_t)(fill - 'A');
    check(fill >= 'A' && i < lf->kept_n, "%s %lu: bytes that nobody sent", kind_names[lf->kind], lf->n);
    return &lf->kept[i];
}

/* Bytes of a fetch: whole batches that were sent there. */
static void judge_records(struct life *lf, struct say_to to, span records) {
    struct batch_head h;
    while (records.n > 0 && batch_head_get(records, &h) == ERR_OK) {
        check(batch_crc_ok(span_of(records.p, h.bytes)), WHERE);
        const struct kept *k = kept_as(lf, records.p[h.bytes - 2]);
        check(strcmp(k->to.topic, to.topic) == 0 && k->to.part == to.part, WHERE);
        records = span_of(records.p + h.bytes, records.n - h.bytes);
    }
}

/* `meanwhile`: another client produces there while the fetch is parked. */
static void fetch(struct life *lf, struct say_to to, int64_t from, bool meanwhile) {
    for (int tries = 0;; tries++) {
        struct say *s = connected(lf);
        say_fetch(s, to, from, meanwhile ? 400 : 0, 1);
        if (meanwhile && tries == 0) {
            lf->s = NULL;
            rig_run(&lf->r, 5);
            produce(lf, to, 1, -1);
            hang_up(lf);
            lf->s = s;
        }
        const struct k_fetch_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->error_code;
        if (m != NULL && code == 0) {
            check(m->topics_n == 1 && m->topics[0].partitions_n == 1, WHERE);
            code = m->topics[0].partitions[0].error_code;
            judge_records(lf, to, m->topics[0].partitions[0].records);
        }
        if (code == 0 || !once_more(lf, tries, "fetch", code)) {
            return;
        }
    }
}

static void list(struct life *lf, struct say_to to, int64_t ts) {
    for (int tries = 0;; tries++) {
        say_list(connected(lf), to, ts);
        const struct k_list_offsets_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->topics[0].partitions[0].error_code;
        if (code == 0 || !once_more(lf, tries, "list offsets", code)) {
            return;
        }
    }
}

static void create(struct life *lf, const char *topic, int32_t parts) {
    for (int tries = 0;; tries++) {
        say_create_send(connected(lf), topic, parts);
        const struct k_create_topics_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->topics[0].error_code;
        lf->created = code == 0 || (code == 36 && tries > 0);
        if (lf->created || !once_more(lf, tries, "create", code)) {
            return;
        }
    }
}

static void delete(struct life *lf, const char *topic) {
    for (int tries = 0;; tries++) {
        say_delete_send(connected(lf), topic);
        const struct k_delete_topics_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->topics[0].error_code;
        lf->deleted = code == 0 || (code == 3 && tries > 0);
        if (lf->deleted || !once_more(lf, tries, "delete", code)) {
            return;
        }
    }
}

static void metadata(struct life *lf) {
    for (int tries = 0;; tries++) {
        say_metadata_send(connected(lf), "old");
        const struct k_metadata_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->topics[0].error_code;
        if (code == 0 || !once_more(lf, tries, "metadata", code)) {
            return;
        }
    }
}

/* ---- requests that are tried again until they succeed ---- */

struct plain {
    const char *what;
    int key, version;
    const void *(*make)(struct say *s);            /* in the client's arena */
    int (*code)(const void *resp);
};

static bool plainly(struct life *lf, const struct plain *p) {
    for (int tries = 0;; tries++) {
        struct say *s = connected(lf);
        say_send(s, p->key, p->version, p->make(s));
        const void *m = answer(lf);
        int code = m == NULL ? -1 : p->code(m);
        if (code == 0) {
            return true;
        }
        if (!once_more(lf, tries, p->what, code)) {
            return false;
        }
    }
}

#define MAKE(type, name) struct type *name = arena_zalloc(&s->arena, sizeof *name); ck_assert_ptr_nonnull(name); type##_init(name)

static const void *make_alter(struct say *s) {
    MAKE(k_incremental_alter_configs_req, m);
    MAKE(k_incremental_alter_configs_req_resource, r);
    MAKE(k_incremental_alter_configs_req_resource_config, c);
    c->name = SPAN_LIT("index.interval.bytes");
    c->value = SPAN_LIT("100");
    r->type = 2;
    r->name = SPAN_LIT("old");
    r->configs = c;
    r->configs_n = 1;
    m->resources = r;
    m->resources_n = 1;
    return m;
}

static int code_alter(const void *resp) { return ((const struct k_incremental_alter_configs_resp *)resp)->responses[0].error_code; }

static const void *make_describe(struct say *s) {
    MAKE(k_describe_configs_req, m);
    MAKE(k_describe_configs_req_resource, r);
    r->type = 2;
    r->name = SPAN_LIT("old");
    r->keys_n = -1;
    m->resources = r;
    m->resources_n = 1;
    m->with_synonyms = true;
    return m;
}

static int code_describe(const void *resp) { return ((const struct k_describe_configs_resp *)resp)->results[0].error_code; }

/* Asked again it is 37: it has as many. */
static const void *make_grow(struct say *s) {
    MAKE(k_create_partitions_req, m);
    MAKE(k_create_partitions_req_topic, t);
    t->name = SPAN_LIT("old");
    t->count = 3;
    t->assignments_n = -1;
    m->topics = t;
    m->topics_n = 1;
    m->timeout_ms = 10000;
    return m;
}

static int code_grow(const void *resp) {
    int code = ((const struct k_create_partitions_resp *)resp)->results[0].error_code;
    return code == 37 ? 0 : code;
}

static const void *make_trim(struct say *s) {
    MAKE(k_delete_records_req, m);
    MAKE(k_delete_records_req_topic, t);
    MAKE(k_delete_records_req_topic_part, p);
    p->index = 1;
    p->offset = 1;
    t->name = SPAN_LIT("old");
    t->partitions = p;
    t->partitions_n = 1;
    m->topics = t;
    m->topics_n = 1;
    m->timeout_ms = 10000;
    return m;
}

static int code_trim(const void *resp) { return ((const struct k_delete_records_resp *)resp)->topics[0].partitions[0].error_code; }

static const void *make_dirs(struct say *s) {
    MAKE(k_describe_log_dirs_req, m);
    m->topics_n = -1;
    return m;
}

static int code_dirs(const void *resp) {
    const struct k_describe_log_dirs_resp *m = resp;
    return m->error_code != 0 ? m->error_code : m->results[0].error_code;
}

static const void *make_versions(struct say *s) {
    MAKE(k_api_versions_req, m);
    m->client_software_name = m->client_software_version = SPAN_LIT("say");
    return m;
}

static int code_versions(const void *resp) { return ((const struct k_api_versions_resp *)resp)->error_code; }

static const void *make_cluster(struct say *s) {
    MAKE(k_describe_cluster_req, m);
    return m;
}

static int code_cluster(const void *resp) { return ((const struct k_describe_cluster_resp *)resp)->error_code; }

static const void *make_pages(struct say *s) {
    MAKE(k_describe_topic_partitions_req, m);
    m->response_partition_limit = 2;
    return m;
}

static int code_pages(const void *resp) {
    const struct k_describe_topic_partitions_resp *m = resp;
    return m->topics_n > 0 ? m->topics[0].error_code : -1;
}

static const struct plain versions = {"versions", K_API_VERSIONS, 3, make_versions, code_versions};
static const struct plain cluster = {"cluster", K_DESCRIBE_CLUSTER, 2, make_cluster, code_cluster};
static const struct plain pages = {"topic partitions", K_DESCRIBE_TOPIC_PARTITIONS, 0, make_pages, code_pages};
static const struct plain alter = {"settings", K_INCREMENTAL_ALTER_CONFIGS, 1, make_alter, code_alter};
static const struct plain describe = {"describe configs", K_DESCRIBE_CONFIGS, 4, make_describe, code_describe};
static const struct plain growth = {"growth", K_CREATE_PARTITIONS, 3, make_grow, code_grow};
static const struct plain trim = {"delete records", K_DELETE_RECORDS, 2, make_trim, code_trim};
static const struct plain dirs = {"log dirs", K_DESCRIBE_LOG_DIRS, 4, make_dirs, code_dirs};

/* A session: opened, polled, told of another partition (S7.30 to 7.34). It may be lost with its connection, or for want of memory never be. */
static void session(struct life *lf) {
    int32_t id = 0;
    for (int32_t epoch = 0, tries = 0; epoch < 3 && tries < TRIES; tries++) {
        struct say *s = connected(lf);
        struct k_fetch_req *q = (struct k_fetch_req *)(uintptr_t)say_fetch_req(s, (struct say_to){"old", epoch == 0 ? 0 : 1}, 1, 0, 1);
        q->session_id = id;
        q->session_epoch = epoch;
        q->topics_n = epoch == 1 ? 0 : q->topics_n;
        say_send(s, K_FETCH, 12, q);
        const struct k_fetch_resp *m = answer(lf);
        int code = m == NULL ? -1 : m->error_code;
        check(code <= 0 || code == 70 || code == 71 || code == 56, "%s %lu (%s): session: code %d", kind_names[lf->kind], lf->n, lf->struck_at, code);
        id = code == 0 ? m->session_id : 0;
        epoch = id != 0 ? epoch + 1 : 0;
    }
    check(id != 0 || lf->kind != ALLOCATION, "%s %lu: no session", kind_names[lf->kind], lf->n);
}

/* ---- the life ---- */

#define OLD0 ((struct say_to){"old", 0})
#define OLD1 ((struct say_to){"old", 1})

/* Before trouble: something that a start finds. */
static void youth(struct life *lf) {
    rig_start(&lf->r);
    create(lf, "old", 2);
    create(lf, "doomed", 1);
    lf->created = false;
    for (int i = 0; i < 3; i++) {
        produce(lf, (struct say_to){"old", i % 2}, -1, -1);
    }
    hang_up(lf);
    rig_crash(&lf->r, false);
}

static void work(struct life *lf) {
    metadata(lf);
    create(lf, "fresh", 2);
    produce(lf, OLD0, -1, -1);
    produce(lf, OLD1, 1, -1);
    produce(lf, OLD1, 0, -1);
    if (lf->created) {
        produce(lf, (struct say_to){"fresh", 0}, -1, -1);
        produce(lf, (struct say_to){"fresh", 1}, -1, -1);
    }
    init_producer(lf);
    produce(lf, OLD0, -1, 0);
    produce(lf, OLD0, -1, 1);
    fetch(lf, OLD0, 0, false);
    fetch(lf, OLD1, 0, true);
    list(lf, OLD0, -1);
    list(lf, OLD0, 5);
    (void)plainly(lf, &versions);
    (void)plainly(lf, &cluster);
    (void)plainly(lf, &pages);
    (void)plainly(lf, &alter);
    (void)plainly(lf, &describe);
    (void)plainly(lf, &dirs);
    lf->grown = plainly(lf, &growth);
    if (lf->grown) {
        produce(lf, (struct say_to){"old", 2}, -1, -1);
    }
    session(lf);
    lf->trimmed = plainly(lf, &trim);
    delete(lf, "doomed");
    rig_run(&lf->r, 1500);             /* a checkpoint by time */
}

static void on_batch(void *u, const struct batch_head *h, span batch) {
    struct life *lf = u;
    struct kept *k = (struct kept *)(uintptr_t)kept_as(lf, batch.p[batch.n - 2]);
    k->copies++;
    k->base = k->acked && k->base == h->base_offset ? -2 : k->base;    /* found where it was acknowledged */
}

static void judge_kept(struct life *lf) {
    for (size_t i = 0; i < lf->kept_n; i++) {
        const struct kept *k = &lf->kept[i];
        bool gone = strcmp(k->to.topic, "old") == 0 && k->to.part == 1 && k->base == 0;     /* below the new log start, perhaps */
        bool promised = k->acked && !gone && (k->acks == -1 || lf->kind == ALLOCATION);
        check(!promised || k->base == -2, "%s %lu (%s): batch %zu of %s-%d, acknowledged (acks=%d) at %ld, is lost", kind_names[lf->kind], lf->n,
              lf->struck_at, i, k->to.topic, k->to.part, k->acks, k->base);
        check(!k->idempotent || k->copies <= 1, "%s %lu (%s): batch %zu is there %d times", kind_names[lf->kind], lf->n, lf->struck_at, i, k->copies);
    }
}

static void judge(struct life *lf) {
    struct say *s = say_open(&lf->r);
    say_list(s, OLD1, -2);
    off64 start = say_listed(s)->offset;
    check(start == 1 || (start == 0 && !lf->trimmed), "%s %lu (%s): the log begins at %ld", kind_names[lf->kind], lf->n, lf->struck_at, start);
    int32_t parts = say_describe(s, "old")->partitions_n;
    check(parts == 3 || (parts == 2 && !lf->grown), "%s %lu (%s): %d partitions", kind_names[lf->kind], lf->n, lf->struck_at, parts);
    for (int32_t part = 0; part < parts; part++) {
        (void)say_read_all(s, (struct say_to){"old", part}, part == 1 ? start : 0, on_batch, lf);
    }
    int16_t fresh = say_describe(s, "fresh")->error_code, doomed = say_describe(s, "doomed")->error_code;
    check(fresh == 0 || (!lf->created && fresh == 3), WHERE);
    check(doomed == 3 || (!lf->deleted && doomed == 0), WHERE);
    for (int32_t part = 0; fresh == 0 && part < 2; part++) {
        (void)say_read_all(s, (struct say_to){"fresh", part}, 0, on_batch, lf);
    }
    say_close(s);
    judge_kept(lf);
}

/* True when the n-th was reached. */
static bool live(struct life *lf, enum kind kind, uint32_t shards, uint64_t n) {
    *lf = (struct life){.kind = kind, .n = n};
    rig_init(&lf->r, 11, shards);
    lf->r.errors_expected = true;
    rig_set(&lf->r, "store.tail.bytes", "2048");
    rig_set(&lf->r, "log.segment.bytes", "4000");
    youth(lf);
    arm(lf);
    rig_boot(&lf->r);
    if (!rig_wait_ready(&lf->r)) {
        may_have_ended(lf);
    }
    work(lf);
    hang_up(lf);
    stop(lf);
    disarm(lf);
    bring_up(lf);
    judge(lf);
    rig_stop(&lf->r);
    rig_done(&lf->r);
    ck_assert_uint_eq(mem_live_all(), 0);
    return lf->struck;
}

/* ---- all of them ---- */

static void torture(enum kind kind, uint32_t shards) {
    static struct life lf;
    uint64_t lives = 0, n = only > 0 ? only : 1;
    while (live(&lf, kind, shards, n) && only == 0) {
        lives++;
        ck_assert_uint_lt(++n, 100000);
    }
    printf("RESULT %s, %u shards: %lu lives, the last trouble at %lu\n", kind_names[kind], shards, lives, n);
    ck_assert(only > 0 || lives > 3);
}

START_TEST(T66_T13_one_thing_fails) { torture((enum kind)(_i / 2), 1u + (uint32_t)_i % 2); }
END_TEST

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        only = strcmp(argv[i], "--n") == 0 && i + 1 < argc ? strtoull(argv[i + 1], NULL, 10) : only;
    }
    TCase *tc = tcase_create("life");
    tcase_set_timeout(tc, 1200);
    tcase_add_loop_test(tc, T66_T13_one_thing_fails, 0, 2 * KINDS);
    return run_suite("torture", tc);
}
