/* One broker process: its shards, its data directory, its metadata writer. boot and stop; everything else is in the shards. */
#pragma once

#include "base/limits.h"
#include "broker/shard.h"
#include "state/conf.h"
#include "state/topicconf.h"

#define NODE_LISTENERS_MAX CONF_LISTENERS_MAX

struct node_listener {
    char name[32];
    char host[256];                    /* as configured; "" = all */
    uint16_t port;                     /* configured; 0 = any. The real one after listening is in bound_port */
    uint16_t bound_port;
    char advertised_host[256];         /* "" = the address the client used (BR-040) */
    uint16_t advertised_port;          /* 0 = bound_port */
};

struct node_conf {
    int32_t node_id;
    struct topicconf topic_defaults;
    const char *data_path;             /* absolute, for DescribeLogDirs; borrowed for the life of the node; NULL: not told */
    const struct conf *conf;           /* borrowed for the life of the node */
    int32_t num_partitions;
    int16_t replication_default;
    bool auto_create_topics, delete_topics, protected_mode;
    size_t frame_bytes_max;            /* socket.request.max.bytes */
    size_t fetch_bytes_max;            /* fetch.max.bytes */
    int32_t describe_parts_max;        /* max.request.partition.size.limit */
    size_t fetch_sessions_max;         /* max.incremental.fetch.session.cache.slots */
    size_t admit_bytes;                /* per shard */
    uint32_t conns_max;                /* max.connections, whole node */
    ms conn_idle_max;                  /* connections.max.idle.ms; <= 0: never */
    ms retention_every;                /* log.retention.check.interval.ms */
    ms producer_expiry;                /* producer.id.expiration.ms */
    ms sync_age_max;
    int64_t unsynced_bytes_max, tail_bytes_max, space_reserve_bytes;
    uint32_t files_max;
    struct node_listener listeners[NODE_LISTENERS_MAX];
    size_t listeners_n;
};

void node_conf_defaults(struct node_conf *c);
/* Fill from settings (keys of state/conf). BAD_SETTING with one line in ret_why. */
err node_conf_from(const struct conf *c, struct node_conf *ret, char *ret_why, size_t cap);

/* The doors, wired by app (or a simulation): called on each shard's thread. */
struct node_door {
    /* Shard 0's thread, once recovery is done: open listeners. Other shards run already; their door state is touched only by asks sent from here on. */
    err (*start)(struct node *n, void *u, char *ret_why, size_t cap);
    /* Shard 0's thread: stop accepting (before the drains). */
    void (*close)(struct node *n, void *u);
    /* Stop reading and accepting on this shard; release parked requests; call node_door_idle(sh) when the last connection is closed. */
    void (*drain)(struct shard *sh, void *u);
    void (*free)(struct node *n, void *u);
    void *u;
};

struct node {
    struct node_conf conf;
    struct shard *shards[LIMIT_SHARDS];
    uint32_t shards_n;
    uuid cluster_id;
    struct node_door door;
    struct metad *metad;               /* shard 0's: the metadata writer */
    struct datadir *datadir;
    _Atomic uint32_t conns;            /* open connections, whole node: only a count for the limit */
    void (*on_ready)(void *u, err e, const char *why); /* shard 0's thread, once: doors are open, or why not; never after node_stop */
    void (*on_stopped)(void *u);       /* shard 0's thread: everything is closed and clean */
    void (*on_fatal)(void *u, const char *why);        /* any shard's thread: exit 74 */
    void *u;
    err stop_err;                      /* at on_stopped: why a store did not stop cleanly; OK: all did */
    struct node_phase *phase;          /* start and stop, private to node.c */
};

/* Open the data directory, replay metadata, recover logs; synchronous, on the caller's thread, before the loops run. On failure everything is freed and ret_why (cap
 * bytes) is one line for the user; LOCKED, FOREIGN, NEWER, BAD_SETTING map to exit 78, IO and DAMAGED to 74. Once the loops run, shard 0 makes the format record and raised
 * leader epochs durable, opens the doors and calls on_ready. */
struct node_boot {
    const struct node_conf *conf;
    struct port **ports;
    uint32_t ports_n;
    struct node_door door;
    void (*on_ready)(void *u, err e, const char *why);
    void (*on_stopped)(void *u);
    void (*on_fatal)(void *u, const char *why);
    void *u;
};
err node_boot(const struct node_boot *b, struct node **ret_n, char *ret_why, size_t cap);
/* Clean stop: on shard 0's thread (a signal). Bounded: connections that do not drain in 3 s are cut. on_stopped comes last; then every port is stopped. */
void node_stop(struct node *n);
void node_door_idle(struct shard *sh);
void node_free(struct node *n);                    /* after on_stopped and after all loops ended */
