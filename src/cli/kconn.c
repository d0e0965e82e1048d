/* A blocking Kafka client over one socket.
 * Happy path: resolve, connect, ApiVersions, then request and answer in turn. Failure modes: UNREACHABLE, TIMEOUT, or BAD_FRAME when the other
 * side speaks something else; each with one line. Every wait is a poll against a deadline, so that nothing hangs.
 * Runs on: the main thread of a command. */
#include "kconn.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/mem.h"
#include "base/must.h"
#include "wire/k_api_versions.h"

#define KCONN_KEYS 128                             /* API keys that are remembered */
#define KCONN_PORT "9092"
#define KCONN_UNSUPPORTED_VERSION 35

struct kconn {
    int fd;
    int64_t wait_ms;
    int32_t correlation;
    bool broken;                                   /* an answer is missing or was nonsense */
    struct kconn_range {
        int16_t min, max;
    } served[KCONN_KEYS];                          /* max < min: not served */
    char peer[300];
    struct kconn_why why;                          /* of the last failure */
    const char *version;
};

#define say(k, ...) snprintf((k)->why.text, sizeof(k)->why.text, __VA_ARGS__)

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void kconn_reply_init(struct kconn_reply *r) {
    *r = (struct kconn_reply){.frame = NULL};
    arena_init(&r->arena, NULL, (size_t)LIMIT_FRAME_BYTES * 4);
}

void kconn_reply_done(struct kconn_reply *r) {
    mem_free(r->frame);
    r->frame = NULL;
    arena_done(&r->arena);
}

const char *kconn_peer(const struct kconn *k) { return k->peer; }

/* ---- bytes, with a deadline ---- */

static err wait_for(struct kconn *k, short events, int64_t deadline) {
    struct pollfd p = {.fd = k->fd, .events = events};
    for (;;) {
        int64_t left = deadline - now_ms();
        int n = left <= 0 ? 0 : poll(&p, 1, left > INT32_MAX ? INT32_MAX : (int)left);
        if (n > 0) {
            return ERR_OK;
        }
        if (n == 0) {
            say(k, "%s did not answer within %lld ms", k->peer, (long long)k->wait_ms);
            return ERR_TIMEOUT;
        }
        if (errno != EINTR) {
            say(k, "cannot wait for %s: %s", k->peer, strerror(errno));
            return ERR_UNREACHABLE;
        }
    }
}

static err send_all(struct kconn *k, const uint8_t *p, size_t n, int64_t deadline) {
    while (n > 0) {
        ssize_t sent = send(k->fd, p, n, MSG_NOSIGNAL);
        if (sent >= 0) {
            p += sent;
            n -= (size_t)sent;
        } else if (errno == EAGAIN) {
            err e = wait_for(k, POLLOUT, deadline);
            if (e != ERR_OK) {
                return e;
            }
        } else if (errno != EINTR) {
            say(k, "the connection to %s broke: %s", k->peer, strerror(errno));
            return ERR_UNREACHABLE;
        }
    }
    return ERR_OK;
}

static err receive_all(struct kconn *k, uint8_t *p, size_t n, int64_t deadline) {
    while (n > 0) {
        ssize_t got = recv(k->fd, p, n, 0);
        if (got > 0) {
            p += got;
            n -= (size_t)got;
        } else if (got == 0) {
            say(k, "%s closed the connection", k->peer);
            return ERR_UNREACHABLE;
        } else if (errno == EAGAIN) {
            err e = wait_for(k, POLLIN, deadline);
            if (e != ERR_OK) {
                return e;
            }
        } else if (errno != EINTR) {
            say(k, "the connection to %s broke: %s", k->peer, strerror(errno));
            return ERR_UNREACHABLE;
        }
    }
    return ERR_OK;
}

/* ---- connecting ---- */

static bool is_port(const char *text) {
    size_t n = strlen(text);
    return n > 0 && n <= 5 && strspn(text, "0123456789") == n && strtoul(text, NULL, 10) <= UINT16_MAX;
}

/* Split "host:port" into host and port; k->peer becomes both joined. */
static bool split_address(struct kconn *k, const char *text, char *host, size_t cap, const char **ret_port) {
    const char *colon = strrchr(text, ':');
    bool six = text[0] == '[';
    const char *end = six ? strchr(text, ']') : colon != NULL ? colon : text + strlen(text);
    if (end == NULL || (six && end[1] != ':' && end[1] != '\0') || (!six && colon != NULL && strchr(text, ':') != colon)) {
        return false;
    }
    size_t n = (size_t)(end - text) - six;
    *ret_port = six ? (end[1] == ':' ? end + 2 : KCONN_PORT) : colon != NULL ? colon + 1 : KCONN_PORT;
    if (n == 0 || n >= cap || !is_port(*ret_port)) {
        return false;
    }
    memcpy(host, text + six, n);
    host[n] = '\0';
    snprintf(k->peer, sizeof k->peer, six ? "[%s]:%s" : "%s:%s", host, *ret_port);
    return true;
}

static err connect_to(struct kconn *k, const struct addrinfo *a, int64_t deadline) {
    k->fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (k->fd < 0) {
        say(k, "cannot make a socket: %s", strerror(errno));
        return ERR_UNREACHABLE;
    }
    int problem = connect(k->fd, a->ai_addr, a->ai_addrlen) == 0 ? 0 : errno;
    if (problem == EINPROGRESS) {
        err e = wait_for(k, POLLOUT, deadline);
        socklen_t n = sizeof problem;
        if (e != ERR_OK) {
            return e;
        }
        if (getsockopt(k->fd, SOL_SOCKET, SO_ERROR, &problem, &n) != 0) {
            problem = errno;
        }
    }
    if (problem != 0) {
        say(k, "cannot reach %s: %s", k->peer, strerror(problem));
        return ERR_UNREACHABLE;
    }
    int on = 1;
    (void)setsockopt(k->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);     /* only speed is lost */
    return ERR_OK;
}

static err connect_any(struct kconn *k, const char *host, const char *port) {
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *list = NULL;
    int problem = getaddrinfo(host, port, &hints, &list);
    if (problem != 0) {
        say(k, "cannot find %s: %s", host, gai_strerror(problem));
        return ERR_UNREACHABLE;
    }
    int64_t deadline = now_ms() + k->wait_ms;
    err e = ERR_UNREACHABLE;
    for (struct addrinfo *a = list; a != NULL && e != ERR_OK; a = a->ai_next) {
        if (k->fd >= 0) {
            close(k->fd);
        }
        e = connect_to(k, a, deadline);
    }
    freeaddrinfo(list);
    return e;
}

/* ---- request and answer ---- */

static err put_request(struct kconn *k, const struct msg_api *api, const void *body, int v, int64_t deadline) {
    struct arena a;
    struct chain c;
    arena_init(&a, NULL, LIMIT_FRAME_BYTES);
    chain_init(&c, &a);
    struct wr w = wr_to(&c);
    struct k_request_header h;
    k_request_header_init(&h);
    wr_i32(&w, 0);
    h.api_key = api->key;
    h.api_version = (int16_t)v;
    h.correlation_id = ++k->correlation;
    h.client_id = SPAN_LIT("perigee-cli");
    head_request_put(&h, api, &w);
    api->req->put(body, &w, v);
    uint8_t *bytes = chain_ok(&c) ? mem_alloc(MEM_MISC, c.bytes) : NULL;
    err e = ERR_NOMEM;
    if (bytes != NULL) {
        chain_flatten(&c, bytes);
        be32_put(bytes, (uint32_t)(c.bytes - 4));
        e = send_all(k, bytes, c.bytes, deadline);
    } else {
        say(k, "the request is too large");
    }
    mem_free(bytes);
    chain_done(&c);
    arena_done(&a);
    return e;
}

static err no_kafka(struct kconn *k) {
    say(k, "%s answers, but not in Kafka's protocol", k->peer);
    return ERR_BAD_FRAME;
}

static err get_frame(struct kconn *k, struct kconn_reply *r, size_t *ret_n, int64_t deadline) {
    uint8_t size[4];
    err e = receive_all(k, size, sizeof size, deadline);
    if (e != ERR_OK) {
        return e;
    }
    uint32_t n = be32_get(size);
    if (n < 4 || n > LIMIT_FRAME_BYTES) {
        return no_kafka(k);
    }
    r->frame = mem_alloc(MEM_MISC, n);
    if (r->frame == NULL) {
        say(k, "no memory for an answer of %u bytes", n);
        return ERR_NOMEM;
    }
    *ret_n = n;
    return receive_all(k, r->frame, n, deadline);
}

/* Decode the answer to the last request. An ApiVersions answer of another version says so in the form of version 0 (S2.4). */
static err get_answer(struct kconn *k, const struct msg_api *api, void *ret_body, struct kconn_reply *r) {
    size_t n = 0;
    struct rd in;
    struct k_response_header h;
    err e = get_frame(k, r, &n, now_ms() + k->wait_ms);
    if (e != ERR_OK) {
        return e;
    }
    rd_init(&in, span_of(r->frame, n), &r->arena);
    if (head_response_get(&in, api, r->version, &h) != ERR_OK || h.correlation_id != k->correlation) {
        return no_kafka(k);
    }
    if (api->key == K_API_VERSIONS_KEY && rd_left(&in) >= 2 && be16_get(in.p) == KCONN_UNSUPPORTED_VERSION) {
        r->version = 0;
    }
    e = api->resp->get(ret_body, &in, r->version);
    return e == ERR_OK ? ERR_OK : e == ERR_NOMEM ? ERR_NOMEM : no_kafka(k);
}

static err exchange(struct kconn *k, const struct msg_api *api, const void *body, void *ret_body, struct kconn_reply *r) {
    kconn_reply_done(r);
    err e = put_request(k, api, body, r->version, now_ms() + k->wait_ms);
    e = e == ERR_OK ? get_answer(k, api, ret_body, r) : e;
    k->broken = e != ERR_OK;
    return e;
}

const char *kconn_why(const struct kconn *k) { return k->why.text; }

err kconn_call(struct kconn *k, const struct msg_api *api, const void *body, void *ret_body, struct kconn_reply *r) {
    must(!k->broken);
    must(api->key >= 0 && api->key < KCONN_KEYS);
    struct kconn_range s = k->served[api->key];
    int16_t v = s.max < api->max ? s.max : api->max;
    if (s.max < s.min || v < s.min || v < api->min) {
        say(k, "%s does not serve %s in a version this program knows", k->peer, api->name);
        return ERR_BAD_VERSION;
    }
    r->version = v;
    return exchange(k, api, body, ret_body, r);
}

static void learn(struct kconn *k, const struct k_api_versions_resp *resp) {
    for (int i = 0; i < KCONN_KEYS; i++) {
        k->served[i] = (struct kconn_range){0, -1};
    }
    for (int32_t i = 0; i < resp->api_keys_n; i++) {
        int key = resp->api_keys[i].api_key;
        if (key >= 0 && key < KCONN_KEYS) {
            k->served[key] = (struct kconn_range){resp->api_keys[i].min_version, resp->api_keys[i].max_version};
        }
    }
}

/* Our newest ApiVersions; when the broker refuses that, version 0. */
static err negotiate(struct kconn *k) {
    const struct msg_api *api = k_api_find(K_API_VERSIONS_KEY);
    struct k_api_versions_req req;
    struct k_api_versions_resp resp;
    struct kconn_reply r;
    k_api_versions_req_init(&req);
    kconn_reply_init(&r);
    req.client_software_name = SPAN_LIT("perigee-cli");
    req.client_software_version = span_str(k->version);
    r.version = api->max;
    err e = exchange(k, api, &req, &resp, &r);
    if (e == ERR_OK && resp.error_code == KCONN_UNSUPPORTED_VERSION) {
        r.version = 0;
        e = exchange(k, api, &req, &resp, &r);
    }
    if (e == ERR_OK && resp.error_code != 0) {
        say(k, "%s refuses to say which versions it serves (error %d)", k->peer, resp.error_code);
        e = ERR_BAD_VERSION;
    }
    if (e == ERR_OK) {
        learn(k, &resp);
    }
    kconn_reply_done(&r);
    return e;
}

err kconn_open(const char *address, int64_t wait_ms, const char *version, struct kconn **ret_k, struct kconn_why *ret_why) {
    struct kconn *k = mem_zalloc(MEM_MISC, sizeof *k);
    char host[256];
    const char *port;
    if (k == NULL) {
        snprintf(ret_why->text, sizeof ret_why->text, "out of memory");
        return ERR_NOMEM;
    }
    k->fd = -1;
    k->wait_ms = wait_ms;
    k->version = version;
    err e = ERR_OK;
    if (!split_address(k, address, host, sizeof host, &port)) {
        say(k, "'%.200s' is no address: HOST:PORT is wanted, such as 127.0.0.1:9092", address);
        e = ERR_USAGE;
    }
    e = e == ERR_OK ? connect_any(k, host, port) : e;
    e = e == ERR_OK ? negotiate(k) : e;
    if (e != ERR_OK) {
        *ret_why = k->why;
        kconn_close(k);
        return e;
    }
    *ret_k = k;
    return ERR_OK;
}

void kconn_close(struct kconn *k) {
    if (k == NULL) {
        return;
    }
    if (k->fd >= 0) {
        close(k->fd);
    }
    mem_free(k);
}
