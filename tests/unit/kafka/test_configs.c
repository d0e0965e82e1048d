/* Goal: settings change through the metadata log (S16.6-16.9): when the answer is here every shard obeys them and tells them, on partitions of every owner; refusals change nothing; after a crash at any
 * disk request a topic has the old settings or the new ones, never older than was answered (T4, T5); write.caching goes off without anything becoming invisible or acknowledged too early (D6).
 * Method: a whole broker on the simulated machine, with 1, 2 and 4 shards and a client on each. */
#include <stdio.h>
#include <string.h>

#include "base/run.h"
#include "say.h"
#include "wire/k_alter_configs.h"
#include "wire/k_describe_configs.h"
#include "wire/k_incremental_alter_configs.h"
#include "wire/k_list_config_resources.h"

static struct rig r;

#define T(part_) ((struct say_to){"t", (part_)})
enum { TOPIC = 2, BROKER = 4, METRICS = 16, GROUP = 32 };

static void send_set(struct say *s, int8_t type, const char *name, const char *key, const char *value) {
    struct k_incremental_alter_configs_req_resource_config c = {.name = span_str(key), .op = value == NULL, .value = span_str(value)};
    struct k_incremental_alter_configs_req_resource t = {.type = type, .name = span_str(name), .configs = &c, .configs_n = 1};
    struct k_incremental_alter_configs_req q = {.resources = &t, .resources_n = 1};
    say_send(s, K_INCREMENTAL_ALTER_CONFIGS, 1, &q);
}

/* NULL puts it back. */
static int16_t set(struct say *s, int8_t type, const char *name, const char *key, const char *value) {
    send_set(s, type, name, key, value);
    const struct k_incremental_alter_configs_resp *x = say_take(s);
    ck_assert_int_eq(x->responses_n, 1);
    return x->responses[0].error_code;
}

/* The value that this client's shard tells, and where it comes from. */
static const char *told(struct say *s, int8_t type, const char *name, const char *key, int *ret_source) {
    static char buf[200];
    span k = span_str(key);
    struct k_describe_configs_req_resource t = {.type = type, .name = span_str(name), .keys = &k, .keys_n = 1};
    struct k_describe_configs_req q = {.resources = &t, .resources_n = 1};
    const struct k_describe_configs_resp *x = say_ask(s, K_DESCRIBE_CONFIGS, 4, &q);
    ck_assert_int_eq(x->results[0].error_code, 0);
    ck_assert_int_eq(x->results[0].configs_n, 1);
    span v = x->results[0].configs[0].value;
    *ret_source = x->results[0].configs[0].source;
    snprintf(buf, sizeof buf, "%.*s", (int)v.n, (const char *)v.p);
    return buf;
}

static int16_t put(struct say *s, int32_t part, size_t bytes) {
    say_produce(s, T(part), -1, say_batch(s, &(struct say_batch){.value_n = bytes}));
    return say_produced(s)->error_code;
}

static void everywhere(struct say *s[4], const char *value, int source) {
    for (int i = 0; i < 4; i++) {
        int from;
        ck_assert_str_eq(told(s[i], TOPIC, "t", "max.message.bytes", &from), value);
        ck_assert_int_eq(from, source);
    }
}

START_TEST(S16_9_every_shard_obeys_when_the_answer_is_here) {
    static const uint32_t shards[] = {1, 2, 4};
    rig_init(&r, 60, shards[_i]);
    rig_start(&r);
    struct say *s[4];
    for (int i = 0; i < 4; i++) {
        s[i] = say_open(&r);
    }
    ck_assert_int_eq(say_create(s[0], "t", 8), 0);
    for (int round = 0; round < 12; round++) {
        char limit[24];
        bool small = round % 2 == 0, of_topic = round % 4 < 2;
        snprintf(limit, sizeof limit, "%d", small ? 1000 : 5000);
        if (of_topic) {
            ck_assert_int_eq(set(s[round % 4], TOPIC, "t", "max.message.bytes", limit), 0);
            everywhere(s, limit, 1);
        } else {
            ck_assert_int_eq(set(s[round % 4], TOPIC, "t", "max.message.bytes", NULL), 0);
            ck_assert_int_eq(set(s[round % 4], BROKER, round % 3 == 0 ? "" : "1", "message.max.bytes", limit), 0);
            everywhere(s, limit, round % 3 == 0 ? 3 : 2);
        }
        for (int p = 0; p < 8; p++) {
            ck_assert_int_eq(put(s[p % 4], p, 2000), small ? 10 : 0);
        }
        if (!of_topic) {
            ck_assert_int_eq(set(s[0], BROKER, "", "message.max.bytes", NULL), 0);
            ck_assert_int_eq(set(s[0], BROKER, "1", "message.max.bytes", NULL), 0);
            everywhere(s, "1048588", 5);
        }
    }
    ck_assert_int_eq(set(s[0], TOPIC, "t", "retention.ms", "7d"), 0);
    for (int i = 0; i < 4; i++) {
        say_close(s[i]);
    }
    rig_stop(&r);
    rig_start(&r);
    int from;
    struct say *again = say_open(&r);
    ck_assert_str_eq(told(again, TOPIC, "t", "retention.ms", &from), "604800000");
    ck_assert_int_eq(from, 1);
    ck_assert_int_eq(say_delete(again, "t"), 0);
    ck_assert_int_eq(say_create(again, "t", 1), 0);
    ck_assert_str_eq(told(again, TOPIC, "t", "retention.ms", &from), "604800000");     /* the name again, and nothing of the old one's settings */
    ck_assert_int_eq(from, 5);
    say_close(again);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* Segments roll by the size that holds now, on every owner. */
START_TEST(S16_9_segment_bytes_acts_on_the_next_append) {
    rig_init(&r, 61, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 4), 0);
    ck_assert_int_eq(set(s, TOPIC, "t", "segment.bytes", "1000"), 0);
    for (int p = 0; p < 4; p++) {
        ck_assert_int_eq(put(s, p, 2000), 18);     /* a batch above segment.bytes */
    }
    ck_assert_int_eq(set(s, TOPIC, "t", "segment.bytes", NULL), 0);
    for (int p = 0; p < 4; p++) {
        ck_assert_int_eq(put(s, p, 2000), 0);
    }
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* ---- write.caching ---- */

static int64_t high_watermark(struct say *s) {
    say_fetch(s, T(0), 0, 0, 0);
    struct k_fetch_resp_topic_part *p = say_fetched(s);
    ck_assert_int_eq(p->error_code, 0);
    return p->high_watermark;
}

/* D6: on, records are visible once written; off again, nothing that was seen disappears, and acks=all waits for the disk. */
START_TEST(D6_write_caching_goes_on_and_off) {
    rig_init(&r, 62 + (uint64_t)_i, 1 + (uint32_t)_i % 2);
    rig_set(&r, "store.sync.age.ms", "60000");     /* nobody syncs by himself */
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    int64_t total = 0;
    for (int round = 0; round < 20; round++) {
        ck_assert_int_eq(set(s, TOPIC, "t", "write.caching", "true"), 0);
        for (int i = 0; i < 3; i++) {
            say_produce(s, T(0), 1, say_batch(s, &(struct say_batch){0}));
            ck_assert_int_eq(say_produced(s)->base_offset, total++);
        }
        int64_t seen = high_watermark(s);
        ck_assert_int_eq(seen, total);
        ck_assert_int_eq(set(s, TOPIC, "t", "write.caching", round % 2 == 0 ? "false" : NULL), 0);
        ck_assert_int_ge(high_watermark(s), seen);
        say_produce(s, T(0), -1, say_batch(s, &(struct say_batch){0}));
        ck_assert_int_eq(say_produced(s)->base_offset, total++);
        ck_assert_int_eq(high_watermark(s), total);
    }
    say_close(s);
    rig_crash(&r, true);                           /* power: acks=all after the switch was synced */
    rig_start(&r);
    s = say_open(&r);
    ck_assert_int_eq(say_latest(s, T(0)), total);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* ---- refusals ---- */

START_TEST(S16_8_verdicts_are_per_resource) {
    rig_init(&r, 63, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "a", 1), 0);
    ck_assert_int_eq(say_create(s, "b", 1), 0);
    struct k_incremental_alter_configs_req_resource_config good = {.name = SPAN_LIT("flush.ms"), .value = SPAN_LIT("5")};
    struct k_incremental_alter_configs_req_resource_config both[] = {good, {.name = SPAN_LIT("retention.ms"), .value = SPAN_LIT("soon")}};
    const struct {
        int8_t type;
        const char *name;
        bool bad;
        int16_t code;
    } rows[] = {{TOPIC, "a", false, 0}, {TOPIC, "b", true, 40}, {TOPIC, "nope", false, 3}, {TOPIC, "a/b", false, 17}, {BROKER, "9", false, 42},
                {GROUP, "", false, 42}, {METRICS, "m", false, 42}, {3, "x", false, 42},    {BROKER, "", false, 40}};
    enum { N = sizeof rows / sizeof *rows };
    for (int v = 0; v <= 1; v++) {
        struct k_incremental_alter_configs_req_resource t[N];
        for (int i = 0; i < N; i++) {
            t[i] = (struct k_incremental_alter_configs_req_resource){.type = rows[i].type, .name = span_str(rows[i].name), .configs = rows[i].bad ? both : &good,
                                                                     .configs_n = rows[i].bad ? 2 : 1};
        }
        struct k_incremental_alter_configs_req q = {.resources = t, .resources_n = N};
        const struct k_incremental_alter_configs_resp *x = say_ask(s, K_INCREMENTAL_ALTER_CONFIGS, v, &q);
        ck_assert_int_eq(x->responses_n, N);
        for (int i = 0; i < N; i++) {
            ck_assert_msg(x->responses[i].error_code == rows[i].code, "%s: %d", rows[i].name, x->responses[i].error_code);
            ck_assert_int_eq(span_is_null(x->responses[i].error_message), rows[i].code == 0);
        }
    }
    int from;
    ck_assert_str_eq(told(s, TOPIC, "a", "flush.ms", &from), "5");
    ck_assert_str_eq(told(s, TOPIC, "b", "flush.ms", &from), "9223372036854775807");
    struct k_alter_configs_req_resource whole = {.type = TOPIC, .name = SPAN_LIT("a")};
    struct k_alter_configs_req wq = {.resources = &whole, .resources_n = 1};
    for (int v = 0; v <= 2; v++) {
        const struct k_alter_configs_resp *x = say_ask(s, K_ALTER_CONFIGS, v, &wq);
        ck_assert_int_eq(x->responses[0].error_code, 0);
    }
    ck_assert_str_eq(told(s, TOPIC, "a", "flush.ms", &from), "9223372036854775807");
    struct k_alter_configs_req none = {.resources_n = 0};
    ck_assert_int_eq(((const struct k_alter_configs_resp *)say_ask(s, K_ALTER_CONFIGS, 2, &none))->responses_n, 0);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* BR-060: a hundred thousand resources in one request are answered, or refused, within the broker's memory. */
START_TEST(S16_4_many_resources_in_one_request) {
    rig_init(&r, 64, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    enum { MANY = 20000 };
    struct k_describe_configs_req_resource *t = mem_zalloc(MEM_TEST, MANY * sizeof *t);
    char (*names)[16] = mem_alloc(MEM_TEST, MANY * sizeof *names);
    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        t[i] = (struct k_describe_configs_req_resource){.type = TOPIC, .name = span_str(i % 2 == 0 ? "t" : names[i]), .keys_n = -1};
    }
    struct k_describe_configs_req q = {.resources = t, .resources_n = MANY, .with_synonyms = true, .with_docs = true};
    const struct k_describe_configs_resp *x = say_ask(s, K_DESCRIBE_CONFIGS, 4, &q);
    ck_assert_int_eq(x->results_n, MANY / 2 + 1);              /* the same one is answered once */
    ck_assert_int_gt(x->results[0].configs_n, 30);
    ck_assert_int_eq(x->results[1].error_code, 3);
    for (int i = 0; i < MANY; i++) {
        t[i].type = GROUP;                         /* any name will do */
        t[i].name = span_str(names[i]);
    }
    x = say_ask(s, K_DESCRIBE_CONFIGS, 4, &q);
    ck_assert_int_eq(x->results_n, MANY);
    ck_assert_int_eq(x->results[0].error_code, 0);
    ck_assert_int_eq(x->results[MANY - 1].error_code, 44);     /* D12: an answer has a ceiling, and says so */
    ck_assert_int_eq(x->results[MANY - 1].configs_n, 0);
    mem_free(t);
    mem_free(names);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* D12: too many to change in one request, each says so. */
START_TEST(S16_8_too_many_resources_in_one_request) {
    rig_init(&r, 66, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    enum { MANY = 10001, CROWD = 60000 };
    struct k_incremental_alter_configs_req_resource *t = mem_zalloc(MEM_TEST, CROWD * sizeof *t);
    char (*names)[16] = mem_alloc(MEM_TEST, CROWD * sizeof *names);
    struct k_incremental_alter_configs_req_resource_config c = {.name = SPAN_LIT("flush.ms"), .value = SPAN_LIT("5")};
    for (int i = 0; i < CROWD; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        t[i] = (struct k_incremental_alter_configs_req_resource){.type = TOPIC, .name = span_str(names[i]), .configs = &c, .configs_n = 1};
    }
    static const int counts[] = {MANY - 1, MANY, CROWD};
    for (int k = 0; k < 3; k++) {
        struct k_incremental_alter_configs_req q = {.resources = t, .resources_n = counts[k]};
        const struct k_incremental_alter_configs_resp *x = say_ask(s, K_INCREMENTAL_ALTER_CONFIGS, 1, &q);
        ck_assert_int_eq(x->responses_n, counts[k]);
        ck_assert_int_eq(x->responses[0].error_code, k == 0 ? 3 : 44);
        ck_assert_int_eq(x->responses[counts[k] - 1].error_code, k == 0 ? 3 : 44);
        say_forget(s);
    }
    mem_free(t);
    mem_free(names);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* S16.11 */
START_TEST(S16_11_resources_are_listed_by_type) {
    rig_init(&r, 65, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    ck_assert_int_eq(set(s, METRICS, "m", "interval.ms", "5000"), 0);
    ck_assert_int_eq(set(s, GROUP, "g", "consumer.session.timeout.ms", "50000"), 0);
    struct k_list_config_resources_req q = {0};
    const struct k_list_config_resources_resp *x = say_ask(s, K_LIST_CONFIG_RESOURCES, 1, &q);
    ck_assert_int_eq(x->resources_n, 5);           /* topic, broker, its logger, metrics, group */
    x = say_ask(s, K_LIST_CONFIG_RESOURCES, 0, &q);
    ck_assert_int_eq(x->resources_n, 1);
    ck_assert(span_eq_str(x->resources[0].name, "m"));
    int8_t types[] = {GROUP, TOPIC};
    q = (struct k_list_config_resources_req){.resource_types = types, .resource_types_n = 2};
    x = say_ask(s, K_LIST_CONFIG_RESOURCES, 1, &q);
    ck_assert_int_eq(x->resources_n, 2);
    types[1] = 3;
    ck_assert_int_eq(((const struct k_list_config_resources_resp *)say_ask(s, K_LIST_CONFIG_RESOURCES, 1, &q))->error_code, 35);
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

/* ---- crashes ---- */

/* Set retention.ms of the topic and message.max.bytes of the broker to 1001, 1002, ... until the broker falls. Returns the last that was answered (0: none). */
static int change_until_crash(int *ret_broker) {
    struct say *s = say_open(&r);
    int topic = 0;
    *ret_broker = 0;
    for (int i = 1; i <= 3; i++) {
        char value[24];
        snprintf(value, sizeof value, "%d", 1000 + i);
        for (int who = 0; who < 2; who++) {
            send_set(s, who == 0 ? TOPIC : BROKER, who == 0 ? "t" : "", who == 0 ? "retention.ms" : "message.max.bytes", value);
            if (!say_await(s, 5000)) {
                say_close(s);
                return topic;
            }
            const struct k_incremental_alter_configs_resp *x = say_take(s);
            ck_assert_int_eq(x->responses[0].error_code, 0);
            *(who == 0 ? &topic : ret_broker) = i;
        }
    }
    say_close(s);
    return topic;
}

static int number_told(struct say *s, int8_t type, const char *name, const char *key) {
    int from;
    const char *v = told(s, type, name, key, &from);
    return from == 5 ? 0 : atoi(v) - 1000;
}

START_TEST(T4_T5_settings_survive_a_crash_at_any_request) {
    bool power = _i == 1, over = false;
    for (uint64_t k = 1; !over; k++) {
        rig_init(&r, 80 + k, 1 + k % 2);
        rig_start(&r);
        struct say *s = say_open(&r);
        ck_assert_int_eq(say_create(s, "t", 2), 0);
        say_close(s);
        world_node_crash_at(r.n, k, power);
        int broker, topic = change_until_crash(&broker);
        over = world_node_is_up(r.n);
        if (over) {
            world_node_crash_at(r.n, 0, power);
            rig_crash(&r, power);
        }
        r.node = NULL;
        rig_start(&r);
        s = say_open(&r);
        int now = number_told(s, TOPIC, "t", "retention.ms"), now_broker = number_told(s, BROKER, "1", "message.max.bytes");
        ck_assert_msg(now >= topic && now <= topic + 1, "request %llu: %d after %d was answered", (unsigned long long)k, now, topic);
        ck_assert_msg(now_broker >= broker && now_broker <= broker + 1, "request %llu: %d after %d was answered", (unsigned long long)k, now_broker, broker);
        ck_assert_int_eq(set(s, TOPIC, "t", "retention.ms", "5"), 0);
        say_close(s);
        rig_stop(&r);
        rig_done(&r);
        ck_assert_uint_lt(k, 200);
    }
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("configs");
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, S16_9_every_shard_obeys_when_the_answer_is_here, 0, 3);
    tcase_add_test(tc, S16_9_segment_bytes_acts_on_the_next_append);
    tcase_add_loop_test(tc, D6_write_caching_goes_on_and_off, 0, 4);
    tcase_add_test(tc, S16_8_verdicts_are_per_resource);
    tcase_add_test(tc, S16_4_many_resources_in_one_request);
    tcase_add_test(tc, S16_8_too_many_resources_in_one_request);
    tcase_add_test(tc, S16_11_resources_are_listed_by_type);
    tcase_add_loop_test(tc, T4_T5_settings_survive_a_crash_at_any_request, 0, 2);
    return run_suite("configs", tc);
}
