// Reads whole partitions with librdkafka: what a C program on the stock library sees.
//
// usage: reader BROKER TOPIC PARTITIONS OUTDIR     writes OUTDIR/<partition>, a line "key<TAB>value" per record in order of arrival
//
// Assigns every partition from the beginning, checks CRCs, and ends when each one reported its end. Exit 1 on any client
// error, on a message error, or when offsets of a partition do not grow.
#include <librdkafka/rdkafka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTITIONS_MAX = 64, IDLE_MS_MAX = 60000 };

static void die(const char *what, const char *why) {
    fprintf(stderr, "reader: %s: %s\n", what, why);
    exit(1);
}

static void set(rd_kafka_conf_t *conf, const char *key, const char *value) {
    char why[256];
    if (rd_kafka_conf_set(conf, key, value, why, sizeof why) != RD_KAFKA_CONF_OK) {
        die(key, why);
    }
}

static rd_kafka_t *consumer(const char *broker) {
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    set(conf, "bootstrap.servers", broker);
    set(conf, "group.id", "compat-reader");
    set(conf, "enable.auto.commit", "false");
    set(conf, "enable.partition.eof", "true");
    set(conf, "auto.offset.reset", "error");
    set(conf, "check.crcs", "true");
    set(conf, "fetch.wait.max.ms", "100");
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    if (!rk) {
        die("rd_kafka_new", why);
    }
    rd_kafka_poll_set_consumer(rk);
    return rk;
}

static void assign(rd_kafka_t *rk, const char *topic, int partitions) {
    rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(partitions);
    for (int p = 0; p < partitions; p++) {
        rd_kafka_topic_partition_list_add(list, topic, p)->offset = RD_KAFKA_OFFSET_BEGINNING;
    }
    rd_kafka_resp_err_t err = rd_kafka_assign(rk, list);
    if (err) {
        die("assign", rd_kafka_err2str(err));
    }
    rd_kafka_topic_partition_list_destroy(list);
}

static void keep(FILE *out, const rd_kafka_message_t *m, int64_t *next) {
    if (m->offset < *next) {
        die("offsets", "went back");
    }
    *next = m->offset + 1;
    fwrite(m->key, 1, m->key_len, out);
    fputc('\t', out);
    fwrite(m->payload, 1, m->len, out);
    fputc('\n', out);
}

int main(int argc, char **argv) {
    if (argc != 5) {
        die("usage", "reader BROKER TOPIC PARTITIONS OUTDIR");
    }
    int partitions = atoi(argv[3]);
    FILE *out[PARTITIONS_MAX];
    int64_t next[PARTITIONS_MAX] = {0};
    bool ended[PARTITIONS_MAX] = {0};
    for (int p = 0; p < partitions && p < PARTITIONS_MAX; p++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d", argv[4], p);
        out[p] = fopen(path, "w");
        if (!out[p]) {
            die(path, "cannot write");
        }
    }
    rd_kafka_t *rk = consumer(argv[1]);
    assign(rk, argv[2], partitions);
    for (int open = partitions; open > 0;) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, IDLE_MS_MAX);
        if (!m) {
            die("poll", "nothing for a minute");
        }
        if (m->err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
            open -= !ended[m->partition];
            ended[m->partition] = true;
        } else if (m->err) {
            die("message", rd_kafka_message_errstr(m));
        } else {
            keep(out[m->partition], m, &next[m->partition]);
        }
        rd_kafka_message_destroy(m);
    }
    for (int p = 0; p < partitions; p++) {
        if (fclose(out[p])) {
            die("fclose", "failed");
        }
    }
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}
