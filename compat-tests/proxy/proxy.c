// A proxy between Kafka clients and a broker that knows where frames begin and end, so that a test can delay, drop, repeat,
// hold or cut exactly the third Produce reply and nothing else (RELIABILITY section 7.6).
//
// usage: frame-proxy LISTENPORT UPSTREAMPORT       both on 127.0.0.1; port 0 picks one; prints "listening PORT"
//
// Standard input carries commands, one a line; each is answered "ok" or "error TEXT":
//   rule ID req|rep API COUNT ACTION    API: key or *; COUNT: N (the Nth match only), N+ (from the Nth on) or /N (each Nth)
//       ACTION: delay:MS | drop | repeat | hold | cut:BYTES | reset:BYTES
//       delay and hold keep what follows on that connection and direction waiting, order is never changed. repeat sends the frame
//       twice; of a repeated request the second reply is swallowed. cut forwards so many bytes of the frame (the length prefix
//       included) and closes both ends with FIN, reset with RST.
//   release ID     lets go what the rule holds        clear   forgets all rules and releases all
//   upstream PORT  the broker's port from now on      close   closes every connection        stats   "rule ID matched N fired N" lines
// Each firing prints "event ID API VERSION CORRELATION SIZE". Ends when standard input closes.
//
// Happy path: on_readable cuts frames, decide() asks the rules, push() queues for the other end, flush() writes what is due.
// Failure modes: a peer that goes away takes the other end with it once its queue is out; an unreadable length closes both.
// Replies are matched to requests by correlation id, since acks=0 has none.
#define _GNU_SOURCE                                   // accept4
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { RULES_MAX = 32, NAME_MAX_ = 32, FRAME_MAX = 128 << 20, READ_SIZE = 256 << 10, PENDING_MAX = 256, EVENTS_MAX = 64, NEVER = -1 };
enum action { DELAY, DROP, REPEAT, HOLD, CUT, RESET };
enum count { NTH, FROM, EACH };

struct rule {
    char id[NAME_MAX_];
    bool reply;
    int api;                                         // -1: any
    enum count count;
    int n;
    enum action action;
    int amount;                                      // milliseconds or bytes
    int matched, fired;
};

struct item {                                        // a frame on its way out
    struct item *next;
    int64_t due_ms;
    int held_by;                                     // rule index, -1: none
    int end_after;                                   // 0 no, 1 FIN, 2 RST once written
    size_t size, at;
    char bytes[];
};

struct pending {                                     // a request that awaits its reply
    int32_t correlation;
    int16_t api, version;
    int swallow;                                     // replies beyond the first to drop
    bool live;
};

struct end {
    struct link *link;
    int fd;
    bool writable_wanted, ended;
    char *in;
    size_t in_size, in_room;
    struct item *first, *last;                       // towards this end
};

struct link {                                        // a client and its broker connection
    struct link *next;
    struct end client, broker;
    struct pending pending[PENDING_MAX];
    bool dead;
};

static struct rule rules[RULES_MAX];
static int rule_count, epoll_fd, listen_fd, upstream_port;
static struct link *links;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void die(const char *what) {
    perror(what);
    exit(1);
}

static int32_t be32(const char *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return (int32_t)ntohl(v);
}

static int16_t be16(const char *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return (int16_t)ntohs(v);
}

// ---- rules ----

static bool counts(const struct rule *r) {
    return r->count == NTH ? r->matched == r->n : r->count == FROM ? r->matched >= r->n : r->matched % r->n == 0;
}

// The rule that fires for this frame, or -1. Every matching rule counts the frame.
static int rule_for(bool reply, int api) {
    int hit = -1;
    for (int i = 0; i < rule_count; i++) {
        struct rule *r = &rules[i];
        if (r->reply != reply || (r->api >= 0 && r->api != api)) {
            continue;
        }
        r->matched++;
        if (hit < 0 && counts(r)) {
            hit = i;
        }
    }
    return hit;
}

// ---- queues ----

static void watch(struct end *e) {
    bool want = e->first && e->first->held_by < 0 && e->first->due_ms <= now_ms();
    if (want != e->writable_wanted) {
        struct epoll_event ev = {.events = EPOLLIN | (want ? EPOLLOUT : 0u), .data.ptr = e};
        epoll_ctl(epoll_fd, EPOLL_CTL_MOD, e->fd, &ev);
        e->writable_wanted = want;
    }
}

static struct item *push(struct end *to, const char *bytes, size_t size) {
    struct item *it = calloc(1, sizeof *it + size);
    if (!it) {
        die("calloc");
    }
    memcpy(it->bytes, bytes, size);
    it->size = size;
    it->held_by = -1;
    if (to->last) {
        to->last->next = it;
    } else {
        to->first = it;
    }
    to->last = it;
    return it;
}

static void bury(struct link *l, bool reset) {
    if (reset) {
        struct linger hard = {1, 0};
        setsockopt(l->client.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
        setsockopt(l->broker.fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
    }
    l->dead = true;
}

static void pop(struct end *e) {
    struct item *it = e->first;
    e->first = it->next;
    if (!e->first) {
        e->last = NULL;
    }
    free(it);
}

// Writes what is due. Order is kept: the first item that must wait stops everything behind it.
static void flush(struct end *e) {
    struct end *other = e == &e->link->client ? &e->link->broker : &e->link->client;
    while (!e->link->dead && e->first && e->first->held_by < 0 && e->first->due_ms <= now_ms()) {
        struct item *it = e->first;
        ssize_t n = send(e->fd, it->bytes + it->at, it->size - it->at, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            break;
        }
        if (n < 0) {
            bury(e->link, false);
            return;
        }
        it->at += (size_t)n;
        if (it->at == it->size) {
            int end_after = it->end_after;
            pop(e);
            if (end_after) {
                bury(e->link, end_after == 2);
                return;
            }
        }
    }
    if (!e->first && other->ended) {
        bury(e->link, false);
        return;
    }
    watch(e);
}

// ---- frames ----

static void act(int hit, struct end *to, const char *frame, size_t size) {
    const struct rule *r = &rules[hit];
    struct item *it;
    switch (r->action) {
    case DROP:
        return;
    case REPEAT:
        push(to, frame, size);
        push(to, frame, size);
        return;
    case DELAY:
        push(to, frame, size)->due_ms = now_ms() + r->amount;
        return;
    case HOLD:
        push(to, frame, size)->held_by = hit;
        return;
    case CUT:
    case RESET:
        it = push(to, frame, (size_t)r->amount < size ? (size_t)r->amount : size);
        it->end_after = r->action == RESET ? 2 : 1;
        return;
    }
}

// Clients count correlations up, so the low bits find the request; one that was never answered (acks=0) is overwritten.
static struct pending *remember(struct link *l, int32_t correlation, bool reply) {
    struct pending *p = &l->pending[(uint32_t)correlation % PENDING_MAX];
    return !reply || (p->live && p->correlation == correlation) ? p : NULL;
}

static void decide(struct end *from, const char *frame, size_t size) {
    struct link *l = from->link;
    bool reply = from == &l->broker;
    struct end *to = reply ? &l->client : &l->broker;
    int32_t correlation = size >= 12 && !reply ? be32(frame + 8) : size >= 8 && reply ? be32(frame + 4) : 0;
    struct pending *p = remember(l, correlation, reply);
    int api = -1, version = -1;
    if (!reply && size >= 12) {
        api = be16(frame + 4);
        version = be16(frame + 6);
        if (p) {
            *p = (struct pending){.correlation = correlation, .api = (int16_t)api, .version = (int16_t)version, .live = true};
        }
    } else if (reply && p) {
        api = p->api;
        version = p->version;
        if (p->swallow < 0) {
            p->live = false;                         // the second reply to a repeated request
            return;
        }
        p->live = p->swallow > 0;
        p->swallow = p->swallow > 0 ? -1 : 0;
    }
    int hit = rule_for(reply, api);
    if (hit < 0) {
        push(to, frame, size);
        return;
    }
    rules[hit].fired++;
    if (!reply && rules[hit].action == REPEAT && p) {
        p->swallow = 1;
    }
    printf("event %s %d %d %d %zu\n", rules[hit].id, api, version, correlation, size);
    act(hit, to, frame, size);
}

static void cut_frames(struct end *e) {
    size_t at = 0;
    while (e->in_size - at >= 4) {
        int32_t length = be32(e->in + at);
        if (length < 0 || length > FRAME_MAX) {
            bury(e->link, false);
            return;
        }
        if (e->in_size - at < 4 + (size_t)length) {
            break;
        }
        decide(e, e->in + at, 4 + (size_t)length);
        at += 4 + (size_t)length;
    }
    memmove(e->in, e->in + at, e->in_size - at);
    e->in_size -= at;
}

static void on_readable(struct end *e) {
    struct end *other = e == &e->link->client ? &e->link->broker : &e->link->client;
    if (e->in_room - e->in_size < READ_SIZE) {
        e->in_room = e->in_size + 2 * READ_SIZE;
        e->in = realloc(e->in, e->in_room);
        if (!e->in) {
            die("realloc");
        }
    }
    ssize_t n = recv(e->fd, e->in + e->in_size, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (n <= 0) {
        e->ended = true;
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, e->fd, NULL);
        flush(other);
        return;
    }
    e->in_size += (size_t)n;
    cut_frames(e);
    if (!e->link->dead) {
        flush(other);
    }
}

// ---- connections ----

static void prepare(struct link *l, struct end *e, int fd) {
    int one = 1;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    *e = (struct end){.link = l, .fd = fd};
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = e};
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

static void on_accept(void) {
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int up = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)upstream_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (fd < 0 || up < 0 || connect(up, (struct sockaddr *)&to, sizeof to) < 0) {
        close(fd);                                   // the broker is away: the client sees its connection end
        close(up);
        return;
    }
    struct link *l = calloc(1, sizeof *l);
    if (!l) {
        die("calloc");
    }
    prepare(l, &l->client, fd);
    prepare(l, &l->broker, up);
    l->next = links;
    links = l;
}

static void free_end(struct end *e) {
    while (e->first) {
        pop(e);
    }
    close(e->fd);
    free(e->in);
}

static void sweep(void) {
    for (struct link **at = &links; *at;) {
        struct link *l = *at;
        if (!l->dead) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        free_end(&l->client);
        free_end(&l->broker);
        free(l);
    }
}

// ---- commands ----

static bool parse_action(struct rule *r, const char *text) {
    static const struct {
        const char *name;
        enum action action;
        bool amount;
    } known[] = {{"delay:", DELAY, true}, {"drop", DROP, false}, {"repeat", REPEAT, false}, {"hold", HOLD, false}, {"cut:", CUT, true},
                 {"reset:", RESET, true}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        size_t n = strlen(known[i].name);
        if (!strncmp(text, known[i].name, n) && (known[i].amount ? text[n] != 0 : text[n] == 0)) {
            r->action = known[i].action;
            r->amount = known[i].amount ? atoi(text + n) : 0;
            return true;
        }
    }
    return false;
}

static const char *add_rule(const char *line) {
    struct rule r = {0};
    char dir[8], api[8], count[16], action[32];
    if (sscanf(line, "rule %31s %7s %7s %15s %31s", r.id, dir, api, count, action) != 5 || rule_count == RULES_MAX) {
        return "error rule ID req|rep API COUNT ACTION";
    }
    r.reply = !strcmp(dir, "rep");
    r.api = api[0] == '*' ? -1 : atoi(api);
    r.count = count[0] == '/' ? EACH : count[strlen(count) - 1] == '+' ? FROM : NTH;
    r.n = atoi(count + (count[0] == '/'));
    if (r.n < 1 || !parse_action(&r, action)) {
        return "error no such count or action";
    }
    rules[rule_count++] = r;
    return "ok";
}

static void release(int rule) {                      // -1: everything
    for (struct link *l = links; l; l = l->next) {
        struct end *ends[] = {&l->client, &l->broker};
        for (int i = 0; i < 2; i++) {
            for (struct item *it = ends[i]->first; it; it = it->next) {
                it->held_by = rule < 0 || it->held_by == rule ? -1 : it->held_by;
            }
            flush(ends[i]);
        }
    }
}

static const char *command(const char *line) {
    char id[NAME_MAX_];
    if (!strncmp(line, "rule ", 5)) {
        return add_rule(line);
    }
    if (sscanf(line, "release %31s", id) == 1) {
        for (int i = 0; i < rule_count; i++) {
            if (!strcmp(rules[i].id, id)) {
                release(i);
                return "ok";
            }
        }
        return "error no such rule";
    }
    if (!strcmp(line, "clear")) {
        release(-1);
        rule_count = 0;
    } else if (!strcmp(line, "close")) {
        for (struct link *l = links; l; l = l->next) {
            bury(l, false);
        }
    } else if (!strcmp(line, "stats")) {
        for (int i = 0; i < rule_count; i++) {
            printf("rule %s matched %d fired %d\n", rules[i].id, rules[i].matched, rules[i].fired);
        }
    } else if (sscanf(line, "upstream %d", &upstream_port) != 1) {
        return "error unknown command";
    }
    return "ok";
}

static void on_command(void) {
    static char text[4096];
    static size_t have;
    ssize_t n = read(STDIN_FILENO, text + have, sizeof text - 1 - have);
    if (n <= 0) {
        exit(0);
    }
    have += (size_t)n;
    text[have] = 0;
    for (char *end; (end = strchr(text, '\n'));) {
        *end = 0;
        puts(command(text));
        have -= (size_t)(end + 1 - text);
        memmove(text, end + 1, have + 1);
    }
}

// ---- the loop ----

// Flushes what became due; returns the milliseconds until the next item does, or NEVER.
static int due(void) {
    int64_t wait = NEVER, now = now_ms();
    for (struct link *l = links; l; l = l->next) {
        struct end *ends[] = {&l->client, &l->broker};
        for (int i = 0; i < 2 && !l->dead; i++) {
            flush(ends[i]);
            const struct item *it = ends[i]->first;
            if (it && it->held_by < 0 && it->due_ms > now && (wait == NEVER || it->due_ms - now < wait)) {
                wait = it->due_ms - now;
            }
        }
    }
    return (int)wait;
}

static void listen_on(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int one = 1;
    listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    setsockopt(listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listen_fd, (struct sockaddr *)&at, sizeof at) < 0 || listen(listen_fd, 128) < 0) {
        die("listen");
    }
    getsockname(listen_fd, (struct sockaddr *)&at, &size);
    printf("listening %d\n", ntohs(at.sin_port));
}

int main(int argc, char **argv) {
    static char commands, accepts;                   // marks for the two other descriptors
    if (argc != 3) {
        fprintf(stderr, "usage: frame-proxy LISTENPORT UPSTREAMPORT\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGPIPE, SIG_IGN);
    upstream_port = atoi(argv[2]);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    listen_on(atoi(argv[1]));
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &accepts});
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, STDIN_FILENO, &(struct epoll_event){.events = EPOLLIN, .data.ptr = &commands});
    for (;;) {
        int wait = due();
        sweep();
        struct epoll_event events[EVENTS_MAX];
        int n = epoll_wait(epoll_fd, events, EVENTS_MAX, wait);
        for (int i = 0; i < n; i++) {
            void *who = events[i].data.ptr;
            if (who == &commands) {
                on_command();
            } else if (who == &accepts) {
                on_accept();
            } else {
                struct end *e = who;
                if (!e->link->dead && events[i].events & EPOLLOUT) {
                    flush(e);
                }
                if (!e->link->dead && events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR) && !e->ended) {
                    on_readable(e);
                }
            }
        }
    }
}
