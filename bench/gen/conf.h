#pragma once
/* conf.h: what one run of the generator does; read from the command line. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CONF_TOPIC_SETTINGS_MAX = 16,
    CONF_CONNECTIONS_MAX = 20000,
    CONF_DEPTH_MAX = 4096,
    CONF_PARTS_MAX = 200000,
    CONF_PARTS_PER_REQUEST_MAX = 256,
};

enum conf_mode { CONF_PRODUCE, CONF_FETCH, CONF_E2E, CONF_VERIFY, CONF_IDLE, CONF_NOTHING };

struct conf {
    enum conf_mode mode;
    char host[64];
    uint16_t port;
    const char *topic, *label;
    bool create, remove;                           /* the topic: make it first, delete it after */
    const char *settings[CONF_TOPIC_SETTINGS_MAX]; /* "key=value", for create */
    unsigned settings_n;
    unsigned partitions;
    unsigned connections, depth; /* producers; requests in flight on each */
    unsigned fetch_connections;
    size_t record_bytes, batch_bytes; /* value of one record; size a batch is filled up to (0: one record) */
    unsigned parts_per_request;
    int acks;
    bool idempotent;
    double rate; /* requests per second over all connections; 0: closed loop */
    double warmup_s, duration_s;
    uint64_t bytes_max; /* stop producing after this many batch bytes; 0: time alone decides */
    int32_t fetch_bytes, fetch_part_bytes;
    int32_t fetch_wait_ms;
    bool verify;     /* read everything back at the end and compare */
    int broker_pid;  /* its CPU time and RSS are reported; 0: unknown */
    double report_s; /* a line of progress on standard error this often; 0: never */
};

/* Reads the command line; prints the usage and exits on nonsense. Strings are borrowed from argv. */
void conf_parse(struct conf *cf, int argc, char **argv);

const char *conf_mode_name(enum conf_mode mode);
