/* `perigee topic list`: all topics, in order of name. An empty broker gives no rows and 0.
 * Failure modes: those of asking. Runs on: the main thread of a command. */
#include <stdlib.h>

#include "topic.h"
#include "topic_ask.h"

static int by_name(const void *a, const void *b) {
    return span_cmp(((const struct k_metadata_resp_topic *)a)->name, ((const struct k_metadata_resp_topic *)b)->name);
}

static int print(struct topic_ask *t, struct k_metadata_resp *m) {
    static const struct out_column columns[] = {{"name", false}, {"partitions", true}, {"id", false}};
    struct out o;
    if (m->topics_n > 0) {
        qsort(m->topics, (size_t)m->topics_n, sizeof m->topics[0], by_name);
    }
    out_begin(&o, t->a, t->form, columns, 3);
    for (int32_t i = 0; i < m->topics_n; i++) {
        char id[UUID_TEXT_CAP];
        uuid_text(m->topics[i].topic_id, id);
        out_span(&o, m->topics[i].name);
        out_number(&o, m->topics[i].partitions_n);
        out_cell(&o, uuid_is_zero(m->topics[i].topic_id) ? NULL : id);
    }
    return out_end(&o, t->a);
}

int topic_list(const struct cli_args *a) {
    struct topic_ask t;
    struct kconn_reply r;
    struct k_metadata_resp m;
    int code = topic_ask_open(&t, a);
    if (code != CLI_OK) {
        return code;
    }
    kconn_reply_init(&r);
    code = topic_ask_metadata(&t, NULL, 0, &m, &r);
    code = code == CLI_OK ? print(&t, &m) : code;
    kconn_reply_done(&r);
    topic_ask_close(&t);
    return code;
}
