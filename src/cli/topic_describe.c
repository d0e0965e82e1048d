/* `perigee topic describe`: Metadata for the partitions, two ListOffsets for their ends.
 * Happy path: a row per partition; --settings is topic_settings.c's. Failure modes: a line per topic or partition that the broker refuses; an offset it does not tell stays empty.
 * All is asked of the one broker that the command is connected to. Runs on: the main thread of a command. */
#include "kerror.h"
#include "topic.h"
#include "topic_ask.h"
#include "topic_settings.h"
#include "wire/k_list_offsets.h"

#define TOPIC_DESCRIBE_FIRST (-2)
#define TOPIC_DESCRIBE_END (-1)
#define TOPIC_DESCRIBE_UNKNOWN 3

struct topic_describe_offsets {
    struct kconn_reply reply;
    struct k_list_offsets_resp resp;
};

/* A request about every partition of every topic without an error; arrays lie in `in`. False without memory. */
static bool build(struct k_list_offsets_req *req, const struct k_metadata_resp *m, int64_t which, struct arena *in) {
    k_list_offsets_req_init(req);
    req->replica_id = -1;
    req->topics_n = 0;
    req->topics = arena_alloc(in, (size_t)m->topics_n * sizeof *req->topics);
    for (int32_t i = 0; req->topics != NULL && i < m->topics_n; i++) {
        const struct k_metadata_resp_topic *t = &m->topics[i];
        if (t->error_code != 0) {
            continue;
        }
        struct k_list_offsets_req_topic *q = &req->topics[req->topics_n++];
        k_list_offsets_req_topic_init(q);
        q->name = t->name;
        q->partitions_n = t->partitions_n;
        q->partitions = arena_alloc(in, (size_t)t->partitions_n * sizeof *q->partitions);
        if (q->partitions == NULL) {
            return false;
        }
        for (int32_t p = 0; p < t->partitions_n; p++) {
            k_list_offsets_req_topic_part_init(&q->partitions[p]);
            q->partitions[p].index = t->partitions[p].index;
            q->partitions[p].timestamp = which;
            q->partitions[p].current_leader_epoch = -1;
            q->partitions[p].max_offsets = 1;
        }
    }
    return req->topics != NULL;
}

static int ask_offsets(struct topic_ask *t, const struct k_metadata_resp *m, int64_t which, struct topic_describe_offsets *ret) {
    struct arena a;
    struct k_list_offsets_req req;
    arena_init(&a, NULL, SIZE_MAX);
    int code = CLI_OK;
    if (!build(&req, m, which, &a)) {
        code = cli_fail(t->a, CLI_USAGE, "out of memory");
    } else if (req.topics_n > 0) {
        code = topic_ask_call(t, K_LIST_OFFSETS_KEY, &req, &ret->resp, &ret->reply);
    } else {
        k_list_offsets_resp_init(&ret->resp);
    }
    arena_done(&a);
    return code;
}

/* What the broker told of one partition; at is where it should stand. NULL: nothing. */
static const struct k_list_offsets_resp_topic_part *find(const struct topic_describe_offsets *o, span topic, int32_t index, int32_t at) {
    for (int32_t i = 0; i < o->resp.topics_n; i++) {
        const struct k_list_offsets_resp_topic *t = &o->resp.topics[i];
        if (!span_eq(t->name, topic)) {
            continue;
        }
        if (at < t->partitions_n && t->partitions[at].index == index) {
            return &t->partitions[at];
        }
        for (int32_t p = 0; p < t->partitions_n; p++) {
            if (t->partitions[p].index == index) {
                return &t->partitions[p];
            }
        }
    }
    return NULL;
}

static int put_offset(const struct topic_ask *t, struct out *o, span topic, const struct k_list_offsets_resp_topic_part *p, int version) {
    if (p == NULL || p->error_code != 0) {
        out_cell(o, NULL);
        return p == NULL ? CLI_REFUSED : cli_fail(t->a, kerror_exit(p->error_code), "%.*s-%d: %s", (int)topic.n, (const char *)topic.p, p->index,
                                                  kerror_name(p->error_code));
    }
    out_number(o, version > 0 ? p->offset : p->old_offsets_n > 0 ? p->old_offsets[0] : -1);
    return CLI_OK;
}

static int print_topic(const struct topic_ask *t, struct out *o, const struct k_metadata_resp_topic *m, const struct topic_describe_offsets *ends) {
    char id[UUID_TEXT_CAP];
    int code = CLI_OK;
    uuid_text(m->topic_id, id);
    for (int32_t p = 0; p < m->partitions_n; p++) {
        const struct k_metadata_resp_topic_part *part = &m->partitions[p];
        out_span(o, m->name);
        out_cell(o, uuid_is_zero(m->topic_id) ? NULL : id);
        out_number(o, part->index);
        part->leader_id < 0 ? out_cell(o, NULL) : out_number(o, part->leader_id);
        part->leader_epoch < 0 ? out_cell(o, NULL) : out_number(o, part->leader_epoch);
        for (int i = 0; i < 2; i++) {
            const struct k_list_offsets_resp_topic_part *end = find(&ends[i], m->name, part->index, p);
            code = topic_ask_first(code, put_offset(t, o, m->name, end, ends[i].reply.version));
            if (end == NULL) {
                (void)cli_fail(t->a, CLI_REFUSED, "%.*s-%d: the broker does not say where it %s", (int)m->name.n, (const char *)m->name.p, part->index,
                               i == 0 ? "begins" : "ends");
            }
        }
    }
    return code;
}

static int print(struct topic_ask *t, const struct k_metadata_resp *m, const struct topic_describe_offsets *ends) {
    static const struct out_column columns[] = {{"topic", false}, {"id", false}, {"partition", true}, {"leader", true},
                                                {"epoch", true},  {"start", true}, {"end", true}};
    struct out o;
    int code = CLI_OK;
    out_begin(&o, t->a, t->form, columns, 7);
    for (int32_t i = 0; i < m->topics_n; i++) {
        int one = m->topics[i].error_code != 0 ? topic_ask_refused(t, m->topics[i].name, m->topics[i].error_code,
                                                                   m->topics[i].error_code == TOPIC_DESCRIBE_UNKNOWN ? SPAN_LIT("no such topic") : SPAN_NULL)
                                               : print_topic(t, &o, &m->topics[i], ends);
        code = topic_ask_first(code, one);
    }
    return topic_ask_first(code, out_end(&o, t->a));
}

static int show_partitions(struct topic_ask *t) {
    struct kconn_reply r;
    struct k_metadata_resp m;
    struct topic_describe_offsets ends[2];
    kconn_reply_init(&r);
    kconn_reply_init(&ends[0].reply);
    kconn_reply_init(&ends[1].reply);
    int code = topic_ask_metadata(t, t->a->words, t->a->words_n, &m, &r);
    code = code == CLI_OK ? ask_offsets(t, &m, TOPIC_DESCRIBE_FIRST, &ends[0]) : code;
    code = code == CLI_OK ? ask_offsets(t, &m, TOPIC_DESCRIBE_END, &ends[1]) : code;
    code = code == CLI_OK ? print(t, &m, ends) : code;
    kconn_reply_done(&ends[0].reply);
    kconn_reply_done(&ends[1].reply);
    kconn_reply_done(&r);
    return code;
}

int topic_describe(const struct cli_args *a) {
    struct topic_ask t;
    int code = topic_ask_open(&t, a);
    if (code != CLI_OK) {
        return code;
    }
    code = cli_flag(a, "settings") ? topic_settings_show(&t) : show_partitions(&t);
    topic_ask_close(&t);
    return code;
}
