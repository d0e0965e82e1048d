/* conf.c: the generator's command line.
 *
 * Purpose: one flat list of options; every number has a range, so a typing error ends the run before it starts.
 * Happy path: defaults, then each option in turn, then the cross checks.
 * Failure modes: an unknown option or a number out of range prints the usage and exits 2.
 * Runs on: the main thread, once. */
#include "conf.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../common/batch.h"

static const char conf_usage[] =
    "usage: gen --broker HOST:PORT [options]\n"
    "  --mode produce|fetch|e2e|verify|idle|nothing   (nothing: only --create and --delete)\n"
    "  --topic NAME --partitions N --create --delete --config KEY=VALUE (repeatable)\n"
    "  --connections C --depth D           producers, and requests in flight on each\n"
    "  --record-bytes R --batch-bytes B    B=0: one record per batch\n"
    "  --parts-per-request K --acks -1|0|1 --idempotent\n"
    "  --rate R                            requests/s, open loop, timed from the scheduled instant; 0: closed\n"
    "  --warmup S --duration S --total-mb M\n"
    "  --fetch-connections C --fetch-bytes N --fetch-part-bytes N --fetch-wait-ms MS\n"
    "  --verify                            read everything back: count, offsets, CRCs, ListOffsets\n"
    "  --broker-pid PID --label TEXT --report S\n";

enum {
    OPT_BROKER = 1,
    OPT_MODE,
    OPT_TOPIC,
    OPT_PARTITIONS,
    OPT_CREATE,
    OPT_DELETE,
    OPT_CONFIG,
    OPT_CONNECTIONS,
    OPT_DEPTH,
    OPT_RECORD,
    OPT_BATCH,
    OPT_PER_REQUEST,
    OPT_ACKS,
    OPT_IDEMPOTENT,
    OPT_RATE,
    OPT_WARMUP,
    OPT_DURATION,
    OPT_TOTAL,
    OPT_FETCH_CONNECTIONS,
    OPT_FETCH_BYTES,
    OPT_FETCH_PART_BYTES,
    OPT_FETCH_WAIT,
    OPT_VERIFY,
    OPT_PID,
    OPT_LABEL,
    OPT_REPORT,
};

static const struct option conf_options[] = {
    {"broker", required_argument, NULL, OPT_BROKER},
    {"mode", required_argument, NULL, OPT_MODE},
    {"topic", required_argument, NULL, OPT_TOPIC},
    {"partitions", required_argument, NULL, OPT_PARTITIONS},
    {"create", no_argument, NULL, OPT_CREATE},
    {"delete", no_argument, NULL, OPT_DELETE},
    {"config", required_argument, NULL, OPT_CONFIG},
    {"connections", required_argument, NULL, OPT_CONNECTIONS},
    {"depth", required_argument, NULL, OPT_DEPTH},
    {"record-bytes", required_argument, NULL, OPT_RECORD},
    {"batch-bytes", required_argument, NULL, OPT_BATCH},
    {"parts-per-request", required_argument, NULL, OPT_PER_REQUEST},
    {"acks", required_argument, NULL, OPT_ACKS},
    {"idempotent", no_argument, NULL, OPT_IDEMPOTENT},
    {"rate", required_argument, NULL, OPT_RATE},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"duration", required_argument, NULL, OPT_DURATION},
    {"total-mb", required_argument, NULL, OPT_TOTAL},
    {"fetch-connections", required_argument, NULL, OPT_FETCH_CONNECTIONS},
    {"fetch-bytes", required_argument, NULL, OPT_FETCH_BYTES},
    {"fetch-part-bytes", required_argument, NULL, OPT_FETCH_PART_BYTES},
    {"fetch-wait-ms", required_argument, NULL, OPT_FETCH_WAIT},
    {"verify", no_argument, NULL, OPT_VERIFY},
    {"broker-pid", required_argument, NULL, OPT_PID},
    {"label", required_argument, NULL, OPT_LABEL},
    {"report", required_argument, NULL, OPT_REPORT},
    {0},
};

static const char *const conf_modes[] = {"produce", "fetch", "e2e", "verify", "idle", "nothing"};

const char *conf_mode_name(enum conf_mode mode) {
    return conf_modes[mode];
}

__attribute__((noreturn)) static void conf_fail(const char *what) {
    fprintf(stderr, "gen: %s\n%s", what, conf_usage);
    exit(2);
}

static double conf_number(const char *s, double min, double max) {
    char *end = NULL;
    double v = strtod(s, &end);
    if (!end || *end || end == s || v < min || v > max) {
        fprintf(stderr, "gen: '%s' is not a number from %g to %g\n", s, min, max);
        conf_fail("bad number");
    }
    return v;
}

static void conf_broker(struct conf *cf, const char *s) {
    const char *colon = strrchr(s, ':');
    if (!colon || colon == s || (size_t)(colon - s) >= sizeof cf->host) {
        conf_fail("--broker wants HOST:PORT");
    }
    memcpy(cf->host, s, (size_t)(colon - s));
    cf->host[colon - s] = 0;
    cf->port = (uint16_t)conf_number(colon + 1, 1, 65535);
}

static void conf_mode_set(struct conf *cf, const char *s) {
    for (unsigned i = 0; i < sizeof conf_modes / sizeof conf_modes[0]; i++) {
        if (strcmp(conf_modes[i], s) == 0) {
            cf->mode = (enum conf_mode)i;
            return;
        }
    }
    conf_fail("unknown --mode");
}

static void conf_setting(struct conf *cf, const char *s) {
    if (cf->settings_n == CONF_TOPIC_SETTINGS_MAX || !strchr(s, '=')) {
        conf_fail("--config wants KEY=VALUE, at most 16 times");
    }
    cf->settings[cf->settings_n++] = s;
}

/* Options about the load. False: not one of them. */
static bool conf_load(struct conf *cf, int opt, const char *v) {
    switch (opt) {
    case OPT_CONNECTIONS: cf->connections = (unsigned)conf_number(v, 1, CONF_CONNECTIONS_MAX); return true;
    case OPT_DEPTH: cf->depth = (unsigned)conf_number(v, 1, CONF_DEPTH_MAX); return true;
    case OPT_RECORD: cf->record_bytes = (size_t)conf_number(v, BATCH_VALUE_MIN, 64 << 20); return true;
    case OPT_BATCH: cf->batch_bytes = (size_t)conf_number(v, 0, 64 << 20); return true;
    case OPT_PER_REQUEST: cf->parts_per_request = (unsigned)conf_number(v, 1, CONF_PARTS_PER_REQUEST_MAX); return true;
    case OPT_ACKS: cf->acks = (int)conf_number(v, -1, 1); return true;
    case OPT_IDEMPOTENT: cf->idempotent = true; return true;
    case OPT_RATE: cf->rate = conf_number(v, 0, 1e8); return true;
    case OPT_WARMUP: cf->warmup_s = conf_number(v, 0, 86400); return true;
    case OPT_DURATION: cf->duration_s = conf_number(v, 0.1, 86400); return true;
    case OPT_TOTAL: cf->bytes_max = (uint64_t)conf_number(v, 0, 1e9) << 20; return true;
    default: return false;
    }
}

static void conf_option(struct conf *cf, int opt, const char *v) {
    if (conf_load(cf, opt, v)) {
        return;
    }
    switch (opt) {
    case OPT_BROKER: conf_broker(cf, v); break;
    case OPT_MODE: conf_mode_set(cf, v); break;
    case OPT_TOPIC: cf->topic = v; break;
    case OPT_PARTITIONS: cf->partitions = (unsigned)conf_number(v, 1, CONF_PARTS_MAX); break;
    case OPT_CREATE: cf->create = true; break;
    case OPT_DELETE: cf->remove = true; break;
    case OPT_CONFIG: conf_setting(cf, v); break;
    case OPT_FETCH_CONNECTIONS: cf->fetch_connections = (unsigned)conf_number(v, 1, 1000); break;
    case OPT_FETCH_BYTES: cf->fetch_bytes = (int32_t)conf_number(v, 1, 1 << 27); break;
    case OPT_FETCH_PART_BYTES: cf->fetch_part_bytes = (int32_t)conf_number(v, 1, 1 << 27); break;
    case OPT_FETCH_WAIT: cf->fetch_wait_ms = (int32_t)conf_number(v, 0, 60000); break;
    case OPT_VERIFY: cf->verify = true; break;
    case OPT_PID: cf->broker_pid = (int)conf_number(v, 0, 1 << 30); break;
    case OPT_LABEL: cf->label = v; break;
    case OPT_REPORT: cf->report_s = conf_number(v, 0, 3600); break;
    default: conf_fail("unknown option");
    }
}

void conf_parse(struct conf *cf, int argc, char **argv) {
    *cf = (struct conf){
        .mode = CONF_PRODUCE,
        .topic = "bench",
        .label = "",
        .partitions = 1,
        .connections = 1,
        .depth = 4,
        .fetch_connections = 1,
        .record_bytes = 1024,
        .batch_bytes = 65536,
        .parts_per_request = 1,
        .acks = 1,
        .warmup_s = 1,
        .duration_s = 5,
        .fetch_bytes = 16 << 20,
        .fetch_part_bytes = 1 << 20,
        .fetch_wait_ms = 500,
    };
    int opt;
    while ((opt = getopt_long(argc, argv, "", conf_options, NULL)) != -1) {
        if (opt == '?') {
            conf_fail("unknown option");
        }
        conf_option(cf, opt, optarg);
    }
    if (optind != argc || cf->port == 0) {
        conf_fail("--broker is required, and nothing but options");
    }
    if (cf->idempotent && cf->acks != -1) {
        conf_fail("--idempotent needs --acks -1");
    }
    if (cf->parts_per_request > cf->partitions) {
        cf->parts_per_request = cf->partitions;
    }
    if (cf->fetch_connections > cf->partitions) {
        cf->fetch_connections = cf->partitions;
    }
}
