/* What one run is like: everything that is drawn from its seed before it begins (the swarm). */
#pragma once

#include "port_sim/world.h"
#include "wire/batch.h"

#define PLAN_TOPICS 3
#define PLAN_PARTS 4                   /* per topic */
#define PLAN_PRODUCERS 4
#define PLAN_CONSUMERS 3
#define PLAN_SETTINGS 24

struct plan_topic {
    char name[32];
    int32_t parts;
    int32_t parts_first;               /* how many it is made with; the others are added while it is in use */
    int64_t message_max;               /* max.message.bytes; 0: the default, which no batch exceeds */
    bool times_checked;                /* message.timestamp.before.max.ms is so short that producers' timestamps are refused */
    bool caching;                      /* write.caching: what was acknowledged may be lost by a power loss */
    bool append_time;                  /* LogAppendTime */
    int codec;                         /* compression.type; -1: as the producer has it */
    int64_t segment_bytes;
    int64_t retention_bytes;           /* -1: none */
    ms retention_age;                  /* -1: none */
    bool deletes;                      /* DeleteRecords comes now and then */
};

struct plan_producer {
    bool idempotent;
    int16_t acks;                      /* -1, 0, 1; idempotent ones -1 */
    int window;                        /* requests in flight */
    int batches;                       /* made at most; none after the safety phase */
    ms pause;                          /* between two requests, at most; 0: none */
    int records_max;                   /* in a batch */
    int bytes_max;                     /* of a record's value */
    enum batch_codec codec;
};

struct plan_setting {
    const char *key;
    char value[48];
};

struct plan {
    uint32_t shards[8];                /* of the first start, the second, ... and round again */
    size_t topics_n, producers_n, consumers_n;
    struct plan_topic topics[PLAN_TOPICS];
    struct plan_producer producers[PLAN_PRODUCERS];
    struct plan_setting settings[PLAN_SETTINGS];
    size_t settings_n;
    struct world_faults faults;        /* of the safety phase */
    struct world_faults calm;          /* of the rest: latencies only */
    /* What the nemesis may do; chances per action, 0 = never. */
    uint32_t power, kill, stop, pause, jump, crash_at, crash_in_boot, full;
    ms nemesis_gap;                    /* between two actions, at most */
    ms safety;                         /* how long the safety phase is */
    bool disk_errors;                  /* reads, writes or syncs may fail: fenced partitions, fatal ends and error lines are in order */
    bool lies;                         /* the disk loses or misplaces writes and says OK: acknowledged data may be lost, but never be wrong */
    bool shards_change;
    bool meddles;                      /* settings of topics change during the safety phase */
    uint64_t crash_op, again_op;       /* 0: none. Operation of the safety phase, and of the start that follows, at which to crash */
    bool crash_power, again_power;
    bool zstd;                         /* somebody uses it: Produce 7 and Fetch 10 at least (S5.3, S7.12) */
};

/* May records of this topic go? Never above the log start that was told. */
bool plan_goes(const struct plan_topic *t);
/* A short run without trouble but one crash, for the enumeration of all its crash points (T2). */
void plan_points(uint64_t seed, struct plan *ret);
/* Crash number k: at operation (k + 1) / 2 of the safety phase, a power loss for even k, and mostly once more in the recovery. */
void plan_crash(struct plan *p, uint64_t k);
void plan_draw(uint64_t seed, struct plan *ret);
void plan_print(const struct plan *p, void (*on_line)(void *u, const char *line), void *u);
