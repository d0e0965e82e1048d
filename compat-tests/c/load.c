// Load for the kill -9 rounds, on stock librdkafka; writes the history that check/history.py judges.
//
// usage: load BROKER TOPIC PARTITIONS NAME HISTORY
//
// One idempotent producer, one plain producer (acks=all, one request in flight, so that order is a promise) and one consumer that
// reads every partition from the beginning, each a thread, each over any number of broker deaths. Values are NAME-<producer>-<n>.
// Ends when standard input closes: producers flush (what stays open becomes "unknown"), the consumer stops, exit 0. Exit 1 when a
// client reports what must never happen: a fatal error of the idempotent producer, or a position that is out of range.
#include <librdkafka/rdkafka.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PARTITIONS_MAX = 16, BURST = 10, PACE_MS = 5, FLUSH_MS = 40000, BATCH_MAX = 200, VALUE_MAX = 64 };

static FILE *history;
static pthread_mutex_t history_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool stopping;
static atomic_bool broken;
static const char *broker, *topic, *name;
static int partitions;

struct sent {
    int n;
    int partition;
    char value[VALUE_MAX];
};

struct actor {
    const char *id;
    bool idempotent;
};

static void complain(const char *who, const char *what) {
    fprintf(stderr, "load %s: %s: %s\n", name, who, what);
    atomic_store(&broken, true);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
        fprintf(stderr, "load: %s: %s\n", key, why);
        exit(2);
    }
}

static rd_kafka_conf_t *conf_common(void) {
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", broker);
    set(conf, "reconnect.backoff.ms", "20");
    set(conf, "reconnect.backoff.max.ms", "200");
    set(conf, "log_level", "2");
    return conf;
}

static rd_kafka_t *open_client(rd_kafka_type_t type, rd_kafka_conf_t *conf) {
    char why[256];
    rd_kafka_t *rk = rd_kafka_new(type, conf, why, sizeof why);
    if (!rk) {
        fprintf(stderr, "load: %s\n", why);
        exit(2);
    }
    return rk;
}

// ---- producers ----

static const char *result_of(const rd_kafka_message_t *m) {
    if (!m->err) {
        return "ok";
    }
    return rd_kafka_message_status(m) == RD_KAFKA_MSG_STATUS_NOT_PERSISTED ? "fail" : "unknown";
}

static void delivered(rd_kafka_t *rk, const rd_kafka_message_t *m, void *opaque) {
    (void)rk;
    const struct actor *a = opaque;
    struct sent *s = m->_private;
    pthread_mutex_lock(&history_lock);
    fprintf(history, "{\"op\":\"send\",\"producer\":\"%s-%s\",\"key\":\"%s-%d\",\"n\":%d,\"value\":\"%s\",\"result\":\"%s\",", name, a->id,
            topic, s->partition, s->n, s->value, result_of(m));
    fprintf(history, "\"offset\":%" PRId64 ",\"idempotent\":%s}\n", m->offset, a->idempotent ? "true" : "false");
    pthread_mutex_unlock(&history_lock);
    free(s);
}

static void failed(rd_kafka_t *rk, int err, const char *reason, void *opaque) {
    const struct actor *a = opaque;
    char why[256];
    if (err == RD_KAFKA_RESP_ERR__FATAL) {
        rd_kafka_fatal_error(rk, why, sizeof why);
        complain(a->id, why);
    }
    (void)reason;
}

static void send_one(rd_kafka_t *rk, const struct actor *a, int n) {
    struct sent *s = calloc(1, sizeof *s);
    s->n = n;
    s->partition = n % partitions;
    snprintf(s->value, sizeof s->value, "%s-%s-%d", name, a->id, n);
    rd_kafka_resp_err_t err;
    do {
        err = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(topic), RD_KAFKA_V_PARTITION(s->partition), RD_KAFKA_V_VALUE(s->value, strlen(s->value)),
                                RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_OPAQUE(s), RD_KAFKA_V_END);
        rd_kafka_poll(rk, err == RD_KAFKA_RESP_ERR__QUEUE_FULL ? 10 : 0);
    } while (err == RD_KAFKA_RESP_ERR__QUEUE_FULL && !atomic_load(&stopping));
    if (err) {
        free(s);                                     // never handed over: it is no part of the history
    }
}

static void *produce(void *arg) {
    struct actor *a = arg;
    rd_kafka_conf_t *conf = conf_common();
    set(conf, "enable.idempotence", a->idempotent ? "true" : "false");
    set(conf, "acks", "all");
    set(conf, "linger.ms", "2");
    set(conf, "message.timeout.ms", "60000");
    set(conf, "queue.buffering.max.messages", "2000");
    set(conf, "compression.codec", a->idempotent ? "lz4" : "none");
    if (!a->idempotent) {
        set(conf, "max.in.flight.requests.per.connection", "1");
    }
    rd_kafka_conf_set_dr_msg_cb(conf, delivered);
    rd_kafka_conf_set_error_cb(conf, failed);
    rd_kafka_conf_set_opaque(conf, a);
    rd_kafka_t *rk = open_client(RD_KAFKA_PRODUCER, conf);
    for (int n = 0; !atomic_load(&stopping) && !atomic_load(&broken);) {
        for (int i = 0; i < BURST; i++) {
            send_one(rk, a, n++);
        }
        rd_kafka_poll(rk, PACE_MS);
    }
    rd_kafka_flush(rk, FLUSH_MS);
    rd_kafka_purge(rk, RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT);
    rd_kafka_flush(rk, 1000);
    rd_kafka_destroy(rk);
    return NULL;
}

// ---- the consumer ----

static void write_mark(rd_kafka_t *rk, int partition) {
    int64_t low, high;
    if (rd_kafka_get_watermark_offsets(rk, topic, partition, &low, &high) || high < 0) {
        return;
    }
    fprintf(history, "{\"op\":\"mark\",\"observer\":\"%s-c\",\"key\":\"%s-%d\",\"high_watermark\":%" PRId64 "}\n", name, topic, partition, high);
}

// A run of messages of one partition is one delivery.
static void write_polls(rd_kafka_t *rk, rd_kafka_message_t **m, size_t count) {
    int open = -1;
    pthread_mutex_lock(&history_lock);
    for (size_t i = 0; i < count; i++) {
        if (m[i]->err) {
            if (m[i]->err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET || m[i]->err == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE) {
                complain("consumer", rd_kafka_message_errstr(m[i]));
            }
            continue;
        }
        if (m[i]->partition != open) {
            fprintf(history, "%s{\"op\":\"poll\",\"consumer\":\"%s-c\",\"key\":\"%s-%d\",\"records\":[", open < 0 ? "" : "]}\n", name, topic,
                    m[i]->partition);
        }
        fprintf(history, "%s[%" PRId64 ",\"%.*s\"]", m[i]->partition == open ? "," : "", m[i]->offset, (int)m[i]->len, (char *)m[i]->payload);
        open = m[i]->partition;
    }
    fputs(open < 0 ? "" : "]}\n", history);
    for (int p = 0; p < partitions && open >= 0; p++) {
        write_mark(rk, p);
    }
    pthread_mutex_unlock(&history_lock);
}

static void *consume(void *arg) {
    (void)arg;
    rd_kafka_conf_t *conf = conf_common();
    set(conf, "group.id", "compat-load");
    set(conf, "enable.auto.commit", "false");
    set(conf, "auto.offset.reset", "error");
    set(conf, "check.crcs", "true");
    set(conf, "fetch.wait.max.ms", "100");
    rd_kafka_t *rk = open_client(RD_KAFKA_CONSUMER, conf);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int p = 0; p < partitions; p++) {
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    rd_kafka_assign(rk, list);
    rd_kafka_topic_partition_list_destroy(list);
    rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(rk);
    while (!atomic_load(&stopping) && !atomic_load(&broken)) {
        rd_kafka_message_t *m[BATCH_MAX];
        ssize_t count = rd_kafka_consume_batch_queue(queue, 50, m, BATCH_MAX);
        write_polls(rk, m, count < 0 ? 0 : (size_t)count);
        for (ssize_t i = 0; i < count; i++) {
            rd_kafka_message_destroy(m[i]);
        }
    }
    rd_kafka_queue_destroy(queue);
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 6) {
        fprintf(stderr, "usage: load BROKER TOPIC PARTITIONS NAME HISTORY\n");
        return 2;
    }
    broker = argv[1];
    topic = argv[2];
    partitions = atoi(argv[3]);
    name = argv[4];
    history = fopen(argv[5], "w");
    if (!history || partitions < 1 || partitions > PARTITIONS_MAX) {
        fprintf(stderr, "load: cannot write %s, or partitions out of range\n", argv[5]);
        return 2;
    }
    struct actor actors[] = {{"i", true}, {"p", false}};
    pthread_t threads[3];
    pthread_create(&threads[0], NULL, produce, &actors[0]);
    pthread_create(&threads[1], NULL, produce, &actors[1]);
    pthread_create(&threads[2], NULL, consume, NULL);
    char byte;
    while (read(STDIN_FILENO, &byte, 1) > 0) {
    }
    atomic_store(&stopping, true);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    return fclose(history) || atomic_load(&broken);
}
