#pragma once
/* rpc.h: the few requests around a load, one at a time on a blocking connection. */

#include <stdint.h>

#include "conf.h"

/* A blocking connection with TCP_NODELAY, or die. `timeout_s` bounds connect, every send and every receive. */
int rpc_connect(const struct conf *cf, int timeout_s);
/* The same, -1 if nobody listens. */
int rpc_try_connect(const struct conf *cf, int timeout_s);

/* ApiVersions 0: dies unless every API that the benches use is served at the version they speak. */
void rpc_api_versions(int fd);

/* CreateTopics 4 with cf's settings, then Metadata until each partition has a leader. An existing topic dies. */
void rpc_topic_create(int fd, const struct conf *cf);
/* Metadata 5 until the topic is there and each of its cf->partitions has a leader; dies after 120 s. */
void rpc_topic_wait(int fd, const struct conf *cf);
/* Metadata 5: the number of partitions, or die. */
unsigned rpc_topic_partitions(int fd, const struct conf *cf);
void rpc_topic_delete(int fd, const struct conf *cf);

/* ListOffsets 2 for every partition; timestamp -1 end, -2 start. `ret_offsets` has cf->partitions places.
 * Leaders that do not know yet that they are (Kafka, just after CreateTopics) are asked again for 30 s. */
void rpc_offsets(int fd, const struct conf *cf, int64_t timestamp, int64_t *ret_offsets);

struct rpc_producer {
    int64_t id;
    int16_t epoch;
};
/* InitProducerId 1 without transactional id. */
struct rpc_producer rpc_producer_init(int fd);
