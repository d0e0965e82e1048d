/* A scripted broker on a socket of this machine, in a process of its own: it knows the topics it is told of, and misbehaves as it is told. */
#pragma once

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "wire/head.h"
#include "wire/k_api_versions.h"
#include "wire/k_create_partitions.h"
#include "wire/k_create_topics.h"
#include "wire/k_delete_topics.h"
#include "wire/k_describe_configs.h"
#include "wire/k_incremental_alter_configs.h"
#include "wire/k_list_offsets.h"
#include "wire/k_metadata.h"

enum fake_manner { FAKE_GOOD, FAKE_OLD, FAKE_SILENT, FAKE_HANG_UP, FAKE_HTTP, FAKE_HUGE, FAKE_WRONG_ID, FAKE_BYTEWISE, FAKE_NO_TOPICS_API };

struct fake {
    enum fake_manner manner;
    int topics_n;                      /* t0, t1, ...: each with two partitions; partition p of topic i spans offsets i to 10 * i + p */
    int16_t error;                     /* for every topic asked to be created, deleted or described */
    int fd, port;
    pid_t pid;
};

static inline bool fake_read(int fd, void *p, size_t n) {
    for (size_t at = 0; at < n;) {
        ssize_t got = read(fd, (char *)p + at, n - at);
        if (got <= 0) {
            return false;
        }
        at += (size_t)got;
    }
    return true;
}

static inline void fake_write(const struct fake *f, int fd, const uint8_t *p, size_t n) {
    size_t step = f->manner == FAKE_BYTEWISE ? 1 : n;
    for (size_t at = 0; at < n; at += step) {
        if (write(fd, p + at, step) != (ssize_t)step) {
            _exit(0);                                          /* the client went away */
        }
    }
}

static inline void fake_answer(const struct fake *f, int fd, const struct k_request_header *q, const void *body, int v) {
    const struct msg_api *api = k_api_find(q->api_key);
    struct arena a;
    struct chain c;
    struct k_response_header h;
    arena_init(&a, NULL, LIMIT_FRAME_BYTES);
    chain_init(&c, &a);
    struct wr w = wr_to(&c);
    k_response_header_init(&h);
    h.correlation_id = q->correlation_id + (f->manner == FAKE_WRONG_ID && q->api_key != K_API_VERSIONS_KEY);
    wr_i32(&w, 0);
    head_response_put(&h, api, v, &w);
    api->resp->put(body, &w, v);
    uint8_t *bytes = mem_alloc(MEM_TEST, c.bytes);
    chain_flatten(&c, bytes);
    be32_put(bytes, f->manner == FAKE_HUGE && q->api_key != K_API_VERSIONS_KEY ? 0x7fffffff : (uint32_t)(c.bytes - 4));
    fake_write(f, fd, bytes, c.bytes);
    mem_free(bytes);
    arena_done(&a);
}

static inline void fake_versions(const struct fake *f, int fd, const struct k_request_header *q) {
    struct k_api_versions_resp r;
    struct k_api_versions_resp_api keys[K_APIS];
    bool refuse = f->manner == FAKE_OLD && q->api_version > 0;
    k_api_versions_resp_init(&r);
    r.api_keys = keys;
    for (int i = 0; i < K_APIS && !refuse; i++) {
        if (f->manner == FAKE_NO_TOPICS_API && k_apis[i].key == K_CREATE_TOPICS_KEY) {
            continue;
        }
        struct k_api_versions_resp_api *k = &keys[r.api_keys_n++];
        k_api_versions_resp_api_init(k);
        k->api_key = k_apis[i].key;
        k->min_version = k_apis[i].min;
        k->max_version = f->manner == FAKE_OLD ? (int16_t)(k_apis[i].min + 1 <= k_apis[i].max ? k_apis[i].min + 1 : k_apis[i].max) : k_apis[i].max;
    }
    r.error_code = refuse ? 35 : 0;
    fake_answer(f, fd, q, &r, refuse ? 0 : q->api_version);
}

static inline int fake_topic(const struct fake *f, span name) {
    return name.n == 2 && name.p[0] == 't' && name.p[1] - '0' < f->topics_n ? name.p[1] - '0' : -1;
}

static inline void fake_metadata(const struct fake *f, int fd, const struct k_request_header *q, const struct k_metadata_req *in) {
    static const char *const names[] = {"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"};
    struct k_metadata_resp r;
    struct k_metadata_resp_topic topics[20];
    struct k_metadata_resp_topic_part parts[2];
    bool all = in->topics_n < 0 || (q->api_version == 0 && in->topics_n == 0);
    if (in->allow_auto_create && q->api_version >= 4) {
        _exit(3);                                              /* looking must never create */
    }
    k_metadata_resp_init(&r);
    for (int p = 0; p < 2; p++) {
        k_metadata_resp_topic_part_init(&parts[p]);
        parts[p].index = p;
        parts[p].leader_id = p == 0 ? 1 : -1;
        parts[p].leader_epoch = 4;
    }
    r.topics = topics;
    r.topics_n = all ? f->topics_n : in->topics_n;
    for (int i = 0; i < r.topics_n; i++) {
        int which = all ? f->topics_n - 1 - i : fake_topic(f, in->topics[i].name);         /* not in order of name */
        k_metadata_resp_topic_init(&topics[i]);
        topics[i].name = all ? span_str(names[which]) : in->topics[i].name;
        topics[i].error_code = which < 0 ? 3 : 0;
        memset(topics[i].topic_id.b, which + 1, 16);
        topics[i].partitions = parts;
        topics[i].partitions_n = which < 0 ? 0 : 2;
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_offsets(const struct fake *f, int fd, const struct k_request_header *q, const struct k_list_offsets_req *in) {
    struct k_list_offsets_resp r;
    struct k_list_offsets_resp_topic topics[20];
    struct k_list_offsets_resp_topic_part parts[20][2];
    static int64_t old[20][2];
    k_list_offsets_resp_init(&r);
    r.topics = topics;
    r.topics_n = in->topics_n;
    for (int i = 0; i < in->topics_n; i++) {
        int which = fake_topic(f, in->topics[i].name);
        k_list_offsets_resp_topic_init(&topics[i]);
        topics[i].name = in->topics[i].name;
        topics[i].partitions = parts[i];
        topics[i].partitions_n = 2;
        for (int p = 0; p < 2; p++) {
            struct k_list_offsets_resp_topic_part *part = &parts[i][1 - p];               /* not in order */
            k_list_offsets_resp_topic_part_init(part);
            part->index = p;
            part->error_code = f->error;
            part->offset = old[i][p] = in->topics[i].partitions[0].timestamp == -2 ? which : 10 * which + p;
            part->old_offsets = &old[i][p];
            part->old_offsets_n = 1;
        }
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_create(const struct fake *f, int fd, const struct k_request_header *q, const struct k_create_topics_req *in) {
    struct k_create_topics_resp r;
    struct k_create_topics_resp_topic topics[20];
    k_create_topics_resp_init(&r);
    r.topics = topics;
    r.topics_n = in->topics_n;
    for (int i = 0; i < in->topics_n; i++) {
        const struct k_create_topics_req_topic *t = &in->topics[i];
        bool exists = fake_topic(f, t->name) >= 0;
        k_create_topics_resp_topic_init(&topics[i]);
        topics[i].name = t->name;
        topics[i].error_code = exists ? 36 : f->error;
        topics[i].error_message = exists ? SPAN_LIT("it is there") : f->error != 0 ? SPAN_LIT("because") : SPAN_NULL;
        memset(topics[i].topic_id.b, 9, 16);
        topics[i].partitions = t->partitions < 0 ? 3 : t->partitions;
        if (t->configs_n != 0 && !(t->configs_n == 1 && span_eq_str(t->configs[0].name, "retention.ms") && span_eq_str(t->configs[0].value, "7d=x"))) {
            _exit(4);
        }
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_delete(const struct fake *f, int fd, const struct k_request_header *q, const struct k_delete_topics_req *in) {
    struct k_delete_topics_resp r;
    struct k_delete_topics_resp_topic topics[20];
    k_delete_topics_resp_init(&r);
    r.topics = topics;
    r.topics_n = q->api_version >= 6 ? in->topics_n : in->topic_names_n;
    for (int i = 0; i < r.topics_n; i++) {
        k_delete_topics_resp_topic_init(&topics[i]);
        topics[i].name = q->api_version >= 6 ? in->topics[i].name : in->topic_names[i];
        topics[i].error_code = fake_topic(f, topics[i].name) < 0 ? 3 : f->error;
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_grow(const struct fake *f, int fd, const struct k_request_header *q, const struct k_create_partitions_req *in) {
    struct k_create_partitions_resp r;
    struct k_create_partitions_resp_result results[20];
    k_create_partitions_resp_init(&r);
    r.results = results;
    r.results_n = in->topics_n;
    for (int i = 0; i < in->topics_n; i++) {
        k_create_partitions_resp_result_init(&results[i]);
        results[i].name = in->topics[i].name;
        results[i].error_code = fake_topic(f, results[i].name) < 0 ? 3 : in->topics[i].count <= 2 ? 37 : f->error;
        results[i].error_message = results[i].error_code == 37 ? SPAN_LIT("it has 2 already") : SPAN_NULL;
        if (in->topics[i].assignments_n >= 0 || in->validate_only) {
            _exit(6);
        }
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

/* Knows retention.ms and refuses any other setting; null values only to delete. */
static inline void fake_alter(const struct fake *f, int fd, const struct k_request_header *q, const struct k_incremental_alter_configs_req *in) {
    struct k_incremental_alter_configs_resp r;
    struct k_incremental_alter_configs_resp_resource results[20];
    k_incremental_alter_configs_resp_init(&r);
    r.responses = results;
    r.responses_n = in->resources_n;
    for (int i = 0; i < in->resources_n; i++) {
        const struct k_incremental_alter_configs_req_resource *t = &in->resources[i];
        k_incremental_alter_configs_resp_resource_init(&results[i]);
        results[i].type = t->type;
        results[i].name = t->name;
        results[i].error_code = fake_topic(f, t->name) < 0 ? 3 : f->error;
        for (int k = 0; k < t->configs_n; k++) {
            if (t->type != 2 || in->validate_only || t->configs[k].op > 1 || (t->configs[k].op == 1) != span_is_null(t->configs[k].value)) {
                _exit(7);
            }
            results[i].error_code = span_eq_str(t->configs[k].name, "retention.ms") ? results[i].error_code : 40;
            results[i].error_message = results[i].error_code == 40 ? SPAN_LIT("unknown") : SPAN_NULL;
        }
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_describe(const struct fake *f, int fd, const struct k_request_header *q, const struct k_describe_configs_req *in) {
    struct k_describe_configs_resp r;
    struct k_describe_configs_resp_result results[20];
    struct k_describe_configs_resp_result_config configs[6];
    k_describe_configs_resp_init(&r);
    for (int i = 0; i < 6; i++) {
        k_describe_configs_resp_result_config_init(&configs[i]);
        configs[i].name = span_str((const char *const[]){"a", "b", "c", "d", "e", "f"}[i]);
        configs[i].value = i == 5 ? SPAN_NULL : SPAN_LIT("v");
        configs[i].source = (int8_t)(i + 1);
        configs[i].is_default = i == 4;
    }
    r.results = results;
    r.results_n = in->resources_n;
    for (int i = 0; i < in->resources_n; i++) {
        k_describe_configs_resp_result_init(&results[i]);
        results[i].name = in->resources[i].name;
        results[i].error_code = fake_topic(f, results[i].name) < 0 ? 3 : f->error;
        results[i].configs = configs;
        results[i].configs_n = results[i].error_code == 0 ? 6 : 0;
        if (in->resources[i].type != 2 || in->resources[i].keys_n >= 0) {
            _exit(8);
        }
    }
    fake_answer(f, fd, q, &r, q->api_version);
}

static inline void fake_serve(const struct fake *f, int fd, span frame) {
    union {
        struct k_metadata_req metadata;
        struct k_list_offsets_req offsets;
        struct k_create_topics_req create;
        struct k_delete_topics_req delete;
        struct k_create_partitions_req grow;
        struct k_incremental_alter_configs_req alter;
        struct k_describe_configs_req describe;
        struct k_api_versions_req versions;
    } body;
    struct arena a;
    struct rd r;
    struct k_request_header q;
    const struct msg_api *api;
    arena_init(&a, NULL, LIMIT_FRAME_BYTES);
    rd_init(&r, frame, &a);
    if (head_request_get(&r, &q, &api) != ERR_OK || api == NULL || api->req->get(&body, &r, q.api_version) != ERR_OK || rd_left(&r) != 0) {
        _exit(2);                                              /* the client sent nonsense */
    }
    switch (q.api_key) {
    case K_API_VERSIONS_KEY:
        fake_versions(f, fd, &q);
        break;
    case K_METADATA_KEY:
        fake_metadata(f, fd, &q, &body.metadata);
        break;
    case K_LIST_OFFSETS_KEY:
        fake_offsets(f, fd, &q, &body.offsets);
        break;
    case K_CREATE_TOPICS_KEY:
        fake_create(f, fd, &q, &body.create);
        break;
    case K_CREATE_PARTITIONS_KEY:
        fake_grow(f, fd, &q, &body.grow);
        break;
    case K_INCREMENTAL_ALTER_CONFIGS_KEY:
        fake_alter(f, fd, &q, &body.alter);
        break;
    case K_DESCRIBE_CONFIGS_KEY:
        fake_describe(f, fd, &q, &body.describe);
        break;
    case K_DELETE_TOPICS_KEY:
        fake_delete(f, fd, &q, &body.delete);
        break;
    default:
        _exit(5);
    }
    arena_done(&a);
}

static inline void fake_connection(const struct fake *f, int fd) {
    uint8_t size[4];
    while (fake_read(fd, size, 4)) {
        uint32_t n = be32_get(size);
        uint8_t *bytes = mem_alloc(MEM_TEST, n);
        if (!fake_read(fd, bytes, n)) {
            break;
        }
        if (f->manner == FAKE_HANG_UP) {
            break;
        }
        if (f->manner == FAKE_HTTP) {
            fake_write(f, fd, (const uint8_t *)"HTTP/1.1 400 Bad Request\r\n\r\n", 28);
            break;
        }
        if (f->manner != FAKE_SILENT) {
            fake_serve(f, fd, span_of(bytes, n));
        }
        mem_free(bytes);
    }
    close(fd);
}

static inline void fake_start(struct fake *f) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof at;
    f->fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(bind(f->fd, (struct sockaddr *)&at, sizeof at), 0);
    ck_assert_int_eq(listen(f->fd, 16), 0);
    ck_assert_int_eq(getsockname(f->fd, (struct sockaddr *)&at, &n), 0);
    f->port = ntohs(at.sin_port);
    f->pid = fork();
    if (f->pid == 0) {
        for (;;) {
            int fd = accept(f->fd, NULL, NULL);
            if (fd < 0) {
                _exit(1);
            }
            fake_connection(f, fd);
        }
    }
}

/* The broker saw nothing that it would call nonsense. */
static inline void fake_stop(struct fake *f) {
    int status = 0;
    (void)kill(f->pid, SIGKILL);
    ck_assert_int_eq(waitpid(f->pid, &status, 0), f->pid);
    ck_assert_msg(WIFSIGNALED(status) || WEXITSTATUS(status) == 0, "the broker left with %d", WEXITSTATUS(status));
    close(f->fd);
}
