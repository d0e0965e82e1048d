// The matrix program on the system's librdkafka: what a C program on the stock library sees. The contract is ../README.md.
//
// usage: matrix PLAN      A step's function fills `out` with its results, or says in `why` what went wrong.
#include "b64.h"
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <librdkafka/rdkafka.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PARTITIONS_MAX = 16, TOPICS_MAX = 1, WHY_MAX = 512, NUMBERS = 16 };

struct run {
    const char *broker;
    int limit_ms;
    FILE *out;
    int step;                                        // the number that record lines carry
    rd_kafka_t *admin;
    char why[WHY_MAX];
};

struct sending {
    int64_t *offsets;
    int failed;
    char why[WHY_MAX];
};

struct sent {
    struct sending *of;
    int number;
};

// ---- small things ----

static bool fail(struct run *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
    return false;
}

static bool good(struct run *r, const char *what, rd_kafka_resp_err_t err, const char *more) {
    return !err || fail(r, "%s: %s (%s)", what, rd_kafka_err2name(err), more ? more : rd_kafka_err2str(err));
}

static const char *text(const cJSON *step, const char *name) {
    return cJSON_GetStringValue(cJSON_GetObjectItem(step, name));
}

static int64_t number(const cJSON *step, const char *name) {
    return (int64_t)cJSON_GetNumberValue(cJSON_GetObjectItem(step, name));
}

static int numbers(const cJSON *step, const char *name, int64_t *out) {
    int n = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItem(step, name)) {
        if (n < PARTITIONS_MAX) {
            out[n++] = (int64_t)item->valuedouble;
        }
    }
    return n;
}

static void put_numbers(cJSON *out, const char *name, const int64_t *values, int n) {
    cJSON *list = cJSON_AddArrayToObject(out, name);
    for (int i = 0; i < n; i++) {
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)values[i]));
    }
}

static void write_line(struct run *r, cJSON *line) {
    char *printed = cJSON_PrintUnformatted(line);
    fprintf(r->out, "%s\n", printed);
    free(printed);
    cJSON_Delete(line);
}

static void put_bytes(cJSON *line, const char *name, const void *data, size_t size) {
    char *coded = data ? b64_encode(data, size) : NULL;
    cJSON_AddItemToObject(line, name, coded ? cJSON_CreateString(coded) : cJSON_CreateNull());
    free(coded);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "matrix: %s: %s\n", key, why);
        exit(2);
    }
}

static void set_number(rd_kafka_conf_t *conf, const char *key, int64_t value) {
    char printed[NUMBERS * 2];
    snprintf(printed, sizeof printed, "%" PRId64, value);
    set(conf, key, printed);
}

static rd_kafka_t *client(struct run *r, rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[256];
    set(conf, "bootstrap.servers", r->broker);
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk) {
        fprintf(stderr, "matrix: %s\n", why);
        exit(2);
    }
    return rk;
}

static rd_kafka_topic_partition_list_t *all_partitions(const char *topic, int n, const int64_t *offsets) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);
    for (int p = 0; p < n; p++) {
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = offsets ? offsets[p] : RD_KAFKA_OFFSET_INVALID;
    }
    return list;
}

// ---- producing ----

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
    (void)rk;
    (void)opaque;
    struct sent *s = m->_private;
    if (m->err) {
        s->of->failed++;
        snprintf(s->of->why, sizeof s->of->why, "%s", rd_kafka_err2str(m->err));
    }
    s->of->offsets[s->number] = m->err || m->offset < 0 ? -1 : m->offset;
    free(s);
}

static rd_kafka_headers_t *headers_of(const cJSON *record) {
    const cJSON *pair, *all = cJSON_GetObjectItem(record, "h");
    rd_kafka_headers_t *headers = rd_kafka_headers_new((size_t)cJSON_GetArraySize(all));
    cJSON_ArrayForEach(pair, all) {
        const char *coded = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        size_t size = 0;
        unsigned char *value = coded ? b64_decode(coded, &size) : NULL;
        rd_kafka_header_add(headers, cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)), -1, value, (ssize_t)size);
        free(value);
    }
    return headers;
}

static bool send_one(struct run *r, rd_kafka_t *rk, const char *topic, const cJSON *record, struct sent *s) {
    size_t key_size = 0, size = 0;
    unsigned char *key = text(record, "k") ? b64_decode(text(record, "k"), &key_size) : NULL;
    unsigned char *value = text(record, "v") ? b64_decode(text(record, "v"), &size) : NULL;
    rd_kafka_resp_err_t err;
    do {
        rd_kafka_headers_t *headers = headers_of(record);
        err = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION((int32_t)number(record, "p")), RD_KAFKA_V_KEY(key, key_size),
                                RD_KAFKA_V_VALUE(value, size), RD_KAFKA_V_TIMESTAMP(number(record, "t")), RD_KAFKA_V_HEADERS(headers),
                                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(s), RD_KAFKA_V_END);
        if (err) {
            rd_kafka_headers_destroy(headers);
            rd_kafka_poll(rk, 100);
        }
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL);
    free(key);
    free(value);
    return good(r, "produce", err, NULL);
}

static rd_kafka_t *producer(struct run *r, const cJSON *step) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "compression.codec", text(step, "codec"));
    set(conf, "enable.idempotence", cJSON_IsTrue(cJSON_GetObjectItem(step, "idempotent")) ? "true" : "false");
    set_number(conf, "acks", number(step, "acks"));
    set_number(conf, "linger.ms", number(step, "linger_ms"));
    set_number(conf, "message.timeout.ms", r->limit_ms);
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    return client(r, RD_KAFKA_PRODUCER, conf);
}

static int count_lines(FILE *f) {
    int n = 0;
    for (int c; (c = fgetc(f)) != EOF;) {
        n += c == '\n';
    }
    rewind(f);
    return n;
}

static bool do_produce(struct run *r, const cJSON *step, cJSON *out) {
    FILE *f = fopen(text(step, "records"), "r");
    if (!f) {
        return fail(r, "no records file");
    }
    int n = count_lines(f);
    struct sending of = {.offsets = calloc((size_t)n + 1, sizeof *of.offsets)};
    rd_kafka_t *rk = producer(r, step);
    char *line = NULL;
    size_t cap = 0;
    bool ok = true;
    for (int i = 0; ok && i < n && getline(&line, &cap, f) > 0; i++) {
        cJSON *record = cJSON_Parse(line);
        struct sent *s = malloc(sizeof *s);
        *s = (struct sent){&of, i};
        ok = send_one(r, rk, text(step, "topic"), record, s);
        cJSON_Delete(record);
    }
    ok = ok && good(r, "flush", rd_kafka_flush(rk, r->limit_ms), NULL);
    rd_kafka_destroy(rk);
    ok = ok && (!of.failed || fail(r, "%d not delivered: %s", of.failed, of.why));
    put_numbers(out, "offsets", of.offsets, n);
    free(of.offsets);
    free(line);
    fclose(f);
    return ok;
}

// ---- consuming ----

static rd_kafka_t *consumer(struct run *r) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "group.id", "matrix");
    set(conf, "enable.auto.commit", "false");
    set(conf, "auto.offset.reset", "error");
    set(conf, "check.crcs", "true");
    set(conf, "fetch.wait.max.ms", "100");
    rd_kafka_t *rk = client(r, RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void close_consumer(rd_kafka_t *rk) {
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}

static void write_record(struct run *r, const rd_kafka_message_t *m) {
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "step", r->step);
    cJSON_AddNumberToObject(line, "p", m->partition);
    cJSON_AddNumberToObject(line, "o", (double)m->offset);
    cJSON_AddNumberToObject(line, "t", (double)rd_kafka_message_timestamp(m, NULL));
    put_bytes(line, "k", m->key, m->key_len);
    put_bytes(line, "v", m->payload, m->len);
    cJSON *all = cJSON_AddArrayToObject(line, "h");
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size;
    if (!rd_kafka_message_headers(m, &headers)) {
        for (size_t i = 0; !rd_kafka_header_get_all(headers, i, &name, &value, &size); i++) {
            cJSON *pair = cJSON_CreateArray();
            char *coded = value ? b64_encode(value, size) : NULL;
            cJSON_AddItemToArray(pair, cJSON_CreateString(name));
            cJSON_AddItemToArray(pair, coded ? cJSON_CreateString(coded) : cJSON_CreateNull());
            cJSON_AddItemToArray(all, pair);
            free(coded);
        }
    }
    write_line(r, line);
}

static bool starts_by_time(struct run *r, rd_kafka_t *rk, const cJSON *step, int n, int64_t *starts) {
    int64_t times[PARTITIONS_MAX];
    for (int p = 0; p < n; p++) {
        times[p] = number(step, "time");
    }
    rd_kafka_topic_partition_list_t *list = all_partitions(text(step, "topic"), n, times);
    bool ok = good(r, "offsets_for_times", rd_kafka_offsets_for_times(rk, list, r->limit_ms), NULL);
    for (int i = 0; ok && i < list->cnt; i++) {
        ok = good(r, "offsets_for_times", list->elems[i].err, NULL);
        starts[list->elems[i].partition] = list->elems[i].offset < 0 ? -1 : list->elems[i].offset;
    }
    rd_kafka_topic_partition_list_destroy(list);
    return ok;
}

static bool read_until(struct run *r, rd_kafka_t *rk, bool *open, int left, const int64_t *until) {
    int64_t deadline = now_ms() + r->limit_ms;
    while (left > 0) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 500);
        bool ok = !m || good(r, "message", m->err, m->err ? rd_kafka_message_errstr(m) : NULL);
        if (m && ok) {
            write_record(r, m);
            if (m->offset + 1 >= until[m->partition] && open[m->partition]) {
                open[m->partition] = false;
                left--;
            }
        }
        if (m) {
            rd_kafka_message_destroy(m);
        }
        if (!ok || now_ms() > deadline) {
            return ok ? fail(r, "%d partitions did not come to their ends", left) : false;
        }
    }
    return true;
}

static bool do_consume(struct run *r, const cJSON *step, cJSON *out) {
    int64_t until[PARTITIONS_MAX], starts[PARTITIONS_MAX] = {0};
    bool open[PARTITIONS_MAX] = {0}, first = !strcmp(text(step, "from"), "earliest"), ok = true;
    int n = numbers(step, "until", until), left = 0;
    rd_kafka_t *rk = consumer(r);
    if (!strcmp(text(step, "from"), "time")) {
        ok = starts_by_time(r, rk, step, n, starts);
    } else if (!first) {
        numbers(step, "offsets", starts);
    }
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);
    for (int p = 0; p < n; p++) {
        open[p] = starts[p] >= 0 && starts[p] < until[p];
        left += open[p];
        if (open[p]) {
            rd_kafka_topic_partition_list_add(list, text(step, "topic"), p)->offset = first ? RD_KAFKA_OFFSET_BEGINNING : starts[p];
        }
    }
    ok = ok && good(r, "assign", rd_kafka_assign(rk, list), NULL) && read_until(r, rk, open, left, until);
    rd_kafka_topic_partition_list_destroy(list);
    close_consumer(rk);
    put_numbers(out, "start", starts, n);
    return ok;
}

static bool do_offsets(struct run *r, const cJSON *step, cJSON *out) {
    int64_t low[PARTITIONS_MAX], high[PARTITIONS_MAX];
    int n = (int)number(step, "partitions");
    rd_kafka_t *rk = consumer(r);
    bool ok = true;
    for (int p = 0; ok && p < n && p < PARTITIONS_MAX; p++) {
        ok = good(r, "watermarks", rd_kafka_query_watermark_offsets(rk, text(step, "topic"), p, &low[p], &high[p], r->limit_ms), NULL);
    }
    close_consumer(rk);
    if (ok) {
        put_numbers(out, "earliest", low, n);
        put_numbers(out, "latest", high, n);
    }
    return ok;
}

// ---- admin ----

static bool metadata(struct run *r, const char *topic, const struct rd_kafka_metadata **ret_md) {
    rd_kafka_topic_t *rkt = topic ? rd_kafka_topic_new(r->admin, topic, NULL) : NULL;
    bool ok = good(r, "metadata", rd_kafka_metadata(r->admin, !topic, rkt, ret_md, r->limit_ms), NULL);
    if (rkt) {
        rd_kafka_topic_destroy(rkt);
    }
    return ok;
}

static bool do_list(struct run *r, const cJSON *step, cJSON *out) {
    (void)step;
    const struct rd_kafka_metadata *md;
    if (!metadata(r, NULL, &md)) {
        return false;
    }
    cJSON *topics = cJSON_AddArrayToObject(out, "topics");
    for (int i = 0; i < md->topic_cnt; i++) {
        cJSON_AddItemToArray(topics, cJSON_CreateString(md->topics[i].topic));
    }
    rd_kafka_metadata_destroy(md);
    return true;
}

static bool do_describe(struct run *r, const cJSON *step, cJSON *out) {
    const struct rd_kafka_metadata *md;
    if (!metadata(r, text(step, "topic"), &md)) {
        return false;
    }
    bool ok = md->topic_cnt == 1 && good(r, "topic", md->topics[0].err, NULL);
    cJSON_AddNumberToObject(out, "partitions", ok ? md->topics[0].partition_cnt : -1);
    rd_kafka_metadata_destroy(md);
    return ok;
}

static rd_kafka_event_t *wait_event(struct run *r, rd_kafka_queue_t *queue, const char *what) {
    rd_kafka_event_t *e = rd_kafka_queue_poll(queue, r->limit_ms);
    rd_kafka_queue_destroy(queue);
    if (e && good(r, what, rd_kafka_event_error(e), rd_kafka_event_error_string(e))) {
        return e;
    }
    if (e) {
        rd_kafka_event_destroy(e);
    } else {
        fail(r, "%s: no answer", what);
    }
    return NULL;
}

static bool topic_results(struct run *r, const char *what, const rd_kafka_topic_result_t **results, size_t n) {
    bool ok = n == 1 || fail(r, "%s: %zu results", what, n);
    for (size_t i = 0; ok && i < n; i++) {
        ok = good(r, what, rd_kafka_topic_result_error(results[i]), rd_kafka_topic_result_error_string(results[i]));
    }
    return ok;
}

static bool do_create(struct run *r, const cJSON *step, cJSON *out) {
    (void)out;
    char why[256];
    rd_kafka_NewTopic_t *topics[] = {rd_kafka_NewTopic_new(text(step, "topic"), (int)number(step, "partitions"), 1, why, sizeof why)};
    const cJSON *config;
    cJSON_ArrayForEach(config, cJSON_GetObjectItem(step, "configs")) {
        rd_kafka_NewTopic_set_config(topics[0], config->string, config->valuestring);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_CreateTopics(r->admin, topics, TOPICS_MAX, NULL, queue);
    rd_kafka_NewTopic_destroy(topics[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "CreateTopics");
    size_t n = 0;
    const rd_kafka_topic_result_t **told = e ? rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(e), &n) : NULL;
    bool ok = told && topic_results(r, "CreateTopics", told, n);
    if (e) {
        rd_kafka_event_destroy(e);
    }
    return ok;
}

static bool do_delete(struct run *r, const cJSON *step, cJSON *out) {
    (void)out;
    rd_kafka_DeleteTopic_t *topics[] = {rd_kafka_DeleteTopic_new(text(step, "topic"))};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_DeleteTopics(r->admin, topics, TOPICS_MAX, NULL, queue);
    rd_kafka_DeleteTopic_destroy(topics[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "DeleteTopics");
    size_t n = 0;
    const rd_kafka_topic_result_t **told = e ? rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(e), &n) : NULL;
    bool ok = told && topic_results(r, "DeleteTopics", told, n);
    if (e) {
        rd_kafka_event_destroy(e);
    }
    return ok;
}

static bool do_grow(struct run *r, const cJSON *step, cJSON *out) {
    (void)out;
    char why[256];
    rd_kafka_NewPartitions_t *grown[] = {rd_kafka_NewPartitions_new(text(step, "topic"), (size_t)number(step, "partitions"), why, sizeof why)};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_CreatePartitions(r->admin, grown, TOPICS_MAX, NULL, queue);
    rd_kafka_NewPartitions_destroy(grown[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "CreatePartitions");
    size_t n = 0;
    const rd_kafka_topic_result_t **told = e ? rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(e), &n) : NULL;
    bool ok = told && topic_results(r, "CreatePartitions", told, n);
    if (e) {
        rd_kafka_event_destroy(e);
    }
    return ok;
}

static bool config_error(struct run *r, const char *what, const rd_kafka_ConfigResource_t **resources, size_t n) {
    return (n == 1 || fail(r, "%s: %zu results", what, n)) &&
           good(r, what, rd_kafka_ConfigResource_error(resources[0]), rd_kafka_ConfigResource_error_string(resources[0]));
}

static bool do_configs(struct run *r, const cJSON *step, cJSON *out) {
    rd_kafka_ConfigResource_t *asked[] = {rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, text(step, "topic"))};
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_DescribeConfigs(r->admin, asked, TOPICS_MAX, NULL, queue);
    rd_kafka_ConfigResource_destroy(asked[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "DescribeConfigs");
    if (!e) {
        return false;
    }
    size_t n = 0, entries = 0;
    const rd_kafka_ConfigResource_t **told = rd_kafka_DescribeConfigs_result_resources(rd_kafka_event_DescribeConfigs_result(e), &n);
    bool ok = config_error(r, "DescribeConfigs", told, n);
    const rd_kafka_ConfigEntry_t **entry = ok ? rd_kafka_ConfigResource_configs(told[0], &entries) : NULL;
    cJSON *configs = cJSON_AddObjectToObject(out, "configs");
    for (size_t i = 0; i < entries; i++) {
        const char *value = rd_kafka_ConfigEntry_value(entry[i]);
        cJSON_AddItemToObject(configs, rd_kafka_ConfigEntry_name(entry[i]), value ? cJSON_CreateString(value) : cJSON_CreateNull());
    }
    rd_kafka_event_destroy(e);
    return ok;
}

static bool do_alter(struct run *r, const cJSON *step, cJSON *out) {
    (void)out;
    rd_kafka_ConfigResource_t *asked[] = {rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, text(step, "topic"))};
    const cJSON *config;
    cJSON_ArrayForEach(config, cJSON_GetObjectItem(step, "configs")) {
        rd_kafka_ConfigResource_set_config(asked[0], config->string, config->valuestring);
    }
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_AlterConfigs(r->admin, asked, TOPICS_MAX, NULL, queue);
    rd_kafka_ConfigResource_destroy(asked[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "AlterConfigs");
    size_t n = 0;
    const rd_kafka_ConfigResource_t **told = e ? rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(e), &n) : NULL;
    bool ok = told && config_error(r, "AlterConfigs", told, n);
    if (e) {
        rd_kafka_event_destroy(e);
    }
    return ok;
}

static bool do_trim(struct run *r, const cJSON *step, cJSON *out) {
    int64_t offsets[PARTITIONS_MAX], low[PARTITIONS_MAX] = {0};
    int parts = numbers(step, "offsets", offsets);
    rd_kafka_topic_partition_list_t *before = all_partitions(text(step, "topic"), parts, offsets);
    rd_kafka_DeleteRecords_t *asked[] = {rd_kafka_DeleteRecords_new(before)};
    rd_kafka_topic_partition_list_destroy(before);
    rd_kafka_queue_t *queue = rd_kafka_queue_new(r->admin);
    rd_kafka_DeleteRecords(r->admin, asked, TOPICS_MAX, NULL, queue);
    rd_kafka_DeleteRecords_destroy(asked[0]);
    rd_kafka_event_t *e = wait_event(r, queue, "DeleteRecords");
    if (!e) {
        return false;
    }
    const rd_kafka_topic_partition_list_t *told = rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(e));
    bool ok = true;
    for (int i = 0; ok && i < told->cnt; i++) {
        ok = good(r, "DeleteRecords", told->elems[i].err, NULL);
        low[told->elems[i].partition] = told->elems[i].offset;
    }
    rd_kafka_event_destroy(e);
    put_numbers(out, "low", low, parts);
    return ok;
}

// ---- the plan ----

static const struct {
    const char *name;
    bool (*run)(struct run *, const cJSON *, cJSON *);
} STEPS[] = {{"create", do_create}, {"list", do_list}, {"describe", do_describe}, {"produce", do_produce}, {"consume", do_consume},
             {"offsets", do_offsets}, {"configs", do_configs}, {"alter", do_alter}, {"grow", do_grow}, {"trim", do_trim}, {"delete", do_delete}};

static void one_step(struct run *r, const cJSON *step) {
    cJSON *line = cJSON_CreateObject();
    cJSON_AddNumberToObject(line, "step", r->step);
    bool ok = false, known = false;
    for (size_t i = 0; i < sizeof STEPS / sizeof *STEPS; i++) {
        if (!strcmp(STEPS[i].name, text(step, "do"))) {
            known = true;
            ok = STEPS[i].run(r, step, line);
        }
    }
    if (!known) {
        cJSON_AddStringToObject(line, "skip", "no such call");
    } else {
        cJSON_AddBoolToObject(line, "ok", ok);
    }
    if (known && !ok) {
        cJSON_AddStringToObject(line, "error", r->why);
    }
    write_line(r, line);
    fflush(r->out);
}

static cJSON *read_plan(const char *path) {
    FILE *f = fopen(path, "r");
    char *all = NULL;
    size_t cap = 0;
    if (!f || getdelim(&all, &cap, 0, f) < 0) {
        fprintf(stderr, "matrix: cannot read %s\n", path);
        exit(2);
    }
    fclose(f);
    cJSON *plan = cJSON_Parse(all);
    free(all);
    return plan;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: matrix PLAN\n");
        return 2;
    }
    cJSON *plan = read_plan(argv[1]);
    struct run r = {.broker = text(plan, "broker"), .limit_ms = (int)number(plan, "limit_s") * 1000, .out = fopen(text(plan, "out"), "w")};
    if (!r.out) {
        fprintf(stderr, "matrix: cannot write %s\n", text(plan, "out"));
        return 2;
    }
    r.admin = client(&r, RD_KAFKA_PRODUCER, rd_kafka_conf_new());
    cJSON *head = cJSON_CreateObject();
    cJSON_AddStringToObject(head, "client", "librdkafka");
    cJSON_AddStringToObject(head, "version", rd_kafka_version_str());
    write_line(&r, head);
    const cJSON *step;
    cJSON_ArrayForEach(step, cJSON_GetObjectItem(plan, "steps")) {
        one_step(&r, step);
        r.step++;
    }
    rd_kafka_destroy(r.admin);
    cJSON_Delete(plan);
    return fclose(r.out) != 0;
}
