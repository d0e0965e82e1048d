/* Every ceiling of the broker in one place. A limit reached is a clear error, never a crash. Units last in the name. */
#pragma once

#define LIMIT_FRAME_BYTES (100 << 20)             /* default of socket.request.max.bytes */
#define LIMIT_FRAME_SMALL_BYTES (64 << 10)        /* frames up to this size are served from the reserve */
#define LIMIT_FRAME_TINY_BYTES (4 << 10)           /* of a frame: what comes before it is charged; frames up to this size are charged when they are whole */
#define LIMIT_REPLY_LITTLE_BYTES (16 << 10)        /* replies up to this size have memory of their own */
#define LIMIT_CONN_INFLIGHT 64                    /* requests of one connection decoded and not yet answered */
#define LIMIT_CONN_WAITING 4                      /* of them, waiting for those before them to end */
#define LIMIT_CONN_INFLIGHT_SHORT 4               /* instead of LIMIT_CONN_INFLIGHT while frames wait for memory */
#define LIMIT_CONN_UNSENT 256                     /* requests of one connection answered, whose replies the client did not take */
#define LIMIT_CONN_OUT_BYTES (8 << 20)            /* unsent reply bytes above which a connection is not read */
#define LIMIT_CONNS 100000                        /* default of max.connections */
#define LIMIT_ARENA_BYTES (16 << 20)              /* decoded request, plus what its frame size allows */
#define LIMIT_ADMIT_BYTES (32 << 20)              /* all shards together: admitted frames and their replies; see broker/admit.h */
#define LIMIT_PARKED_BYTES (32 << 20)             /* per shard: memory of requests that wait, above 16 KiB each; more are answered at once */
#define LIMIT_ADMIT_RESERVE_BYTES (4 << 20)
#define LIMIT_TAIL_BYTES (16 << 20)               /* per shard: fresh data kept in memory for readers */
#define LIMIT_TAIL_BLOCK_BYTES (64 << 10)         /* largest block that small batches are copied into */
#define LIMIT_WRITES_INFLIGHT 256                 /* per shard: gathered writes submitted at once */
#define LIMIT_WRITE_BYTES (4 << 20)               /* one gathered write stops growing here */
#define LIMIT_COLD_BYTES (1 << 20)                /* one cold read, a larger first batch excepted */
#define LIMIT_FINDS 32                            /* per shard: look-ups by time under way, a quarter of LIMIT_COLD_BYTES each */
#define LIMIT_FINDS_PER_TURN 256
#define LIMIT_TRIMS 4                             /* per shard: logs whose old segments' files are being removed */
#define LIMIT_TRIMS_PER_TURN 64
#define LIMIT_RETAINS 4                           /* per shard: looks of retention that wait for the disk */
#define LIMIT_RETAINS_PER_TURN 64
#define LIMIT_INDEXES_LOADED_BYTES (16 << 20)     /* per shard: segment indexes read for cold reads */
#define LIMIT_EPOCHS 10000                        /* leader epochs remembered per log; oldest are merged */
#define LIMIT_CHUNKS_KEPT_BYTES (8 << 20)         /* per shard: free chunks kept for reuse */
#define LIMIT_ARENAS_KEPT_BYTES (1 << 20)
#define LIMIT_FETCH_BYTES (55 << 20)              /* fetch.max.bytes */
#define LIMIT_FETCH_SESSIONS 1000                 /* default of max.incremental.fetch.session.cache.slots: all shards together */
#define LIMIT_FETCH_SESSION_PARTITIONS 100000     /* of one session */
#define LIMIT_FETCH_SESSION_BYTES (64 << 20)      /* memory of all sessions, all shards together: about 190,000 partitions */
#define LIMIT_UNSYNCED_BYTES (64 << 20)           /* store.unsynced.max, per shard */
#define LIMIT_TOPICS 100000
#define LIMIT_PARTITIONS 400000                   /* all topics together */
#define LIMIT_PARTITIONS_PER_TOPIC 100000
#define LIMIT_PARTS_PER_TURN 2000                 /* opened or removed in one turn; a topic of more takes several */
#define LIMIT_TOPIC_NAME 249
#define LIMIT_TOPIC_SETTINGS 256                  /* own settings of one topic */
#define LIMIT_RESOURCES 10000                     /* groups, brokers and metrics subscriptions that have settings */
#define LIMIT_PRODUCERS_PER_SHARD 1000000         /* idempotent producer states; oldest go first */
#define LIMIT_PRODUCERS_PER_PARTITION 100000
#define LIMIT_UNZIP_BYTES_MIN (64 << 20)          /* unpacked bytes of one batch: max(this, 10 x max.message.bytes) */
#define LIMIT_ZSTD_WINDOW_LOG 23
#define LIMIT_SNAPPY_BLOCK_BYTES (16 << 20)       /* one unpacked block of a batch that is looked through piece by piece */
#define LIMIT_RECORD_ERRORS 1000                  /* records listed as bad in one Produce answer */
#define LIMIT_PRODUCE_BYTES_PER_TURN (1 << 20)    /* of one Produce request, a first batch above it excepted */
#define LIMIT_TAGS 1024                           /* tagged fields in one section */
#define LIMIT_INBOX_PER_TURN 4096                 /* asks taken per turn */
#define LIMIT_TIMERS_PER_TURN 4096
#define LIMIT_IOV 1024                            /* pieces of one gathered write */
#define LIMIT_FDS_RESERVED 64                     /* kept for rolls and directories, beside the store's eighth */
#define LIMIT_SETTINGS_FILE_BYTES (1 << 20)
#define LIMIT_META_RECORD_BYTES (1 << 20)
#define LIMIT_META_ROOM_BYTES (1 << 20)           /* kept by the file system behind the metadata log, for what must be written on a full disk */
#define LIMIT_SHARDS 64
