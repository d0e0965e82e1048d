/* rpc.c: setting the stage: versions, topic, offsets, producer ids.
 *
 * Purpose: everything that is not load. Requests go one at a time, so this code can be plain.
 * Happy path: build the request in a kbuf, send it, read the whole reply, read its fields.
 * Failure modes: any error code, short reply, time-out or lost connection dies with its name; the one wait
 * is for leaders after CreateTopics (a replicated broker elects them a moment later), bounded by 120 s.
 * Runs on: the main thread, outside the measured window. */
#include "rpc.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "../common/die.h"
#include "../common/kbuf.h"

int rpc_try_connect(const struct conf *cf, int timeout_s) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(cf->port)};
    if (inet_pton(AF_INET, cf->host, &a.sin_addr) != 1) {
        die("'%s' is not an IPv4 address", cf->host);
    }
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        die("socket");
    }
    int one = 1;
    struct timeval tv = {.tv_sec = timeout_s};
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof tv);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

int rpc_connect(const struct conf *cf, int timeout_s) {
    int fd = rpc_try_connect(cf, timeout_s);
    if (fd < 0) {
        die("connect to %s:%u", cf->host, cf->port);
    }
    return fd;
}

static void rpc_read(int fd, uint8_t *p, size_t n) {
    while (n > 0) {
        ssize_t r = recv(fd, p, n, 0);
        if (r <= 0) {
            die("the broker closed the connection or fell silent");
        }
        p += r;
        n -= (size_t)r;
    }
}

/* Sends `b` and replaces it by the reply; the reader starts behind the correlation id. */
static struct kread rpc_call(int fd, struct kbuf *b) {
    uint32_t correlation = kbuf_get32(b->p + 8);
    kbuf_end(b, 0);
    for (size_t at = 0; at < b->len;) {
        ssize_t w = send(fd, b->p + at, b->len - at, MSG_NOSIGNAL);
        if (w <= 0) {
            die("send");
        }
        at += (size_t)w;
    }
    uint8_t head[4];
    rpc_read(fd, head, sizeof head);
    size_t n = kbuf_get32(head);
    if (n < 4 || n > KBUF_BYTES_MAX) {
        die("a reply of %zu bytes", n);
    }
    b->len = 0;
    kbuf_reserve(b, n);
    rpc_read(fd, b->p, n);
    struct kread r = kread_of(b->p, n);
    if ((uint32_t)kread_i32(&r) != correlation) {
        die("reply with a foreign correlation id");
    }
    return r;
}

static void rpc_check(const struct kread *r, int16_t error, const char *what) {
    if (r->bad) {
        die("%s: short reply", what);
    }
    if (error != 0) {
        die("%s: error code %d", what, error);
    }
}

void rpc_api_versions(int fd) {
    static const struct { int16_t api, version; } need[] = {{0, 7}, {1, 11}, {2, 2}, {3, 5}, {19, 4}};
    struct kbuf b = {0};
    kbuf_begin(&b, 18, 0, 1);
    struct kread r = rpc_call(fd, &b);
    rpc_check(&r, kread_i16(&r), "ApiVersions");
    unsigned found = 0;
    for (int32_t n = kread_i32(&r); n > 0 && !r.bad; n--) {
        int16_t api = kread_i16(&r), min = kread_i16(&r), max = kread_i16(&r);
        for (unsigned i = 0; i < sizeof need / sizeof need[0]; i++) {
            found += need[i].api == api && min <= need[i].version && need[i].version <= max;
        }
    }
    rpc_check(&r, 0, "ApiVersions");
    if (found != sizeof need / sizeof need[0]) {
        die("the broker does not serve every version spoken here");
    }
    kbuf_done(&b);
}

/* Metadata 5 for the topic. Returns its partitions with a leader, or -1 while the topic is not there yet. */
static int rpc_leaders(int fd, const struct conf *cf, unsigned *ret_partitions) {
    struct kbuf b = {0};
    kbuf_begin(&b, 3, 5, 2);
    kbuf_i32(&b, 1);
    kbuf_str(&b, cf->topic);
    kbuf_i8(&b, 0);
    struct kread r = rpc_call(fd, &b);
    (void)kread_i32(&r);
    for (int32_t n = kread_i32(&r); n > 0 && !r.bad; n--) {
        (void)kread_i32(&r);
        (void)kread_str(&r);
        (void)kread_i32(&r);
        (void)kread_str(&r);
    }
    (void)kread_str(&r);
    (void)kread_i32(&r);
    int32_t topics = kread_i32(&r);
    int16_t error = kread_i16(&r);
    (void)kread_str(&r);
    (void)kread_i8(&r);
    int32_t parts = kread_i32(&r);
    int led = 0;
    for (int32_t i = 0; i < parts && !r.bad; i++) {
        int16_t part_error = kread_i16(&r);
        (void)kread_i32(&r);
        int32_t leader = kread_i32(&r);
        for (int lists = 0; lists < 3; lists++) {
            int32_t n = kread_i32(&r);
            kread_skip(&r, n > 0 ? (size_t)n * 4 : 0);
        }
        led += part_error == 0 && leader >= 0;
    }
    if (r.bad || topics != 1) {
        die("Metadata: short or strange reply");
    }
    *ret_partitions = (unsigned)parts;
    kbuf_done(&b);
    return error ? -1 : led;
}

unsigned rpc_topic_partitions(int fd, const struct conf *cf) {
    unsigned n = 0;
    if (rpc_leaders(fd, cf, &n) < 0) {
        die("topic '%s' does not exist", cf->topic);
    }
    return n;
}

void rpc_topic_wait(int fd, const struct conf *cf) {
    unsigned parts = 0;
    for (unsigned tries = 0; rpc_leaders(fd, cf, &parts) != (int)cf->partitions; tries++) {
        if (tries == 6000) {
            die("still no leaders after 120 s");
        }
        (void)poll(NULL, 0, 20);
    }
}

void rpc_topic_create(int fd, const struct conf *cf) {
    struct kbuf b = {0};
    kbuf_begin(&b, 19, 4, 3);
    kbuf_i32(&b, 1);
    kbuf_str(&b, cf->topic);
    kbuf_i32(&b, (int32_t)cf->partitions);
    kbuf_i16(&b, 1);
    kbuf_i32(&b, 0);
    kbuf_i32(&b, (int32_t)cf->settings_n);
    for (unsigned i = 0; i < cf->settings_n; i++) {
        char key[256];
        const char *eq = strchr(cf->settings[i], '=');
        size_t n = (size_t)(eq - cf->settings[i]) < sizeof key - 1 ? (size_t)(eq - cf->settings[i]) : sizeof key - 1;
        memcpy(key, cf->settings[i], n);
        key[n] = 0;
        kbuf_str(&b, key);
        kbuf_str(&b, eq + 1);
    }
    kbuf_i32(&b, 120000);
    kbuf_i8(&b, 0);
    struct kread r = rpc_call(fd, &b);
    (void)kread_i32(&r);
    (void)kread_i32(&r);
    (void)kread_str(&r);
    rpc_check(&r, kread_i16(&r), "CreateTopics");
    kbuf_done(&b);
    rpc_topic_wait(fd, cf);
}

void rpc_topic_delete(int fd, const struct conf *cf) {
    struct kbuf b = {0};
    kbuf_begin(&b, 20, 1, 4);
    kbuf_i32(&b, 1);
    kbuf_str(&b, cf->topic);
    kbuf_i32(&b, 60000);
    struct kread r = rpc_call(fd, &b);
    (void)kread_i32(&r);
    (void)kread_i32(&r);
    (void)kread_str(&r);
    rpc_check(&r, kread_i16(&r), "DeleteTopics");
    kbuf_done(&b);
}

static int16_t rpc_offsets_read(struct kread *r, const struct conf *cf, int64_t *ret_offsets) {
    int16_t first_error = 0;
    (void)kread_i32(r);
    (void)kread_i32(r);
    (void)kread_str(r);
    int32_t n = kread_i32(r);
    if (n != (int32_t)cf->partitions) {
        die("ListOffsets: %d partitions for %u", n, cf->partitions);
    }
    for (int32_t i = 0; i < n; i++) {
        int32_t part = kread_i32(r);
        int16_t error = kread_i16(r);
        (void)kread_i64(r);
        int64_t offset = kread_i64(r);
        if (r->bad || part < 0 || (unsigned)part >= cf->partitions) {
            die("ListOffsets: short reply or partition %d", part);
        }
        first_error = first_error ? first_error : error;
        ret_offsets[part] = offset;
    }
    return first_error;
}

void rpc_offsets(int fd, const struct conf *cf, int64_t timestamp, int64_t *ret_offsets) {
    struct kbuf b = {0};
    for (unsigned tries = 0;; tries++) {
        kbuf_begin(&b, 2, 2, 5);
        kbuf_i32(&b, -1);
        kbuf_i8(&b, 0);
        kbuf_i32(&b, 1);
        kbuf_str(&b, cf->topic);
        kbuf_i32(&b, (int32_t)cf->partitions);
        for (unsigned i = 0; i < cf->partitions; i++) {
            kbuf_i32(&b, (int32_t)i);
            kbuf_i64(&b, timestamp);
        }
        struct kread r = rpc_call(fd, &b);
        int16_t error = rpc_offsets_read(&r, cf, ret_offsets);
        if (error == 0) {
            break;
        }
        bool passing = error == 3 || error == 5 || error == 6; /* the leader has not heard of it yet */
        if (!passing || tries == 1500) {
            die("ListOffsets: error code %d", error);
        }
        (void)poll(NULL, 0, 20);
    }
    kbuf_done(&b);
}

struct rpc_producer rpc_producer_init(int fd) {
    struct kbuf b = {0};
    struct rpc_producer who = {0};
    for (unsigned tries = 0;; tries++) {
        kbuf_begin(&b, 22, 1, 6);
        kbuf_str(&b, NULL);
        kbuf_i32(&b, 60000);
        struct kread r = rpc_call(fd, &b);
        (void)kread_i32(&r);
        int16_t error = kread_i16(&r);
        who.id = kread_i64(&r);
        who.epoch = kread_i16(&r);
        bool passing = error == 14 || error == 15; /* a coordinator that is still starting */
        if (!passing || tries == 1500) {
            rpc_check(&r, error, "InitProducerId");
            break;
        }
        (void)poll(NULL, 0, 20);
    }
    kbuf_done(&b);
    return who;
}
