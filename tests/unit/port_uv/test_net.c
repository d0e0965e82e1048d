/* Sockets as only the real port has them: options, names, resets at any time, half-open ends, and descriptors that
 * run out.
 *
 * Method: the echo server of door.h on a thread, plain blocking sockets here. */
#include <arpa/inet.h>
#include <check.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/must.h"
#include "port_uv/door.h"

static bool is_closed(const struct door_counts *c, int n) {
    return c->closed == n && c->open == 0;
}

static bool is_accepted(const struct door_counts *c, int n) {
    return c->accepted == n;
}

static void reset(int fd) {
    struct linger now = {.l_onoff = 1};
    must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(fd);
}

/* Bytes until the end; *ret_clean: it was a FIN. */
static size_t read_to_end(int fd, bool *ret_clean) {
    static uint8_t buf[1 << 18];
    size_t all = 0;
    for (;;) {
        ssize_t n = recv(fd, buf, sizeof buf, 0);
        if (n <= 0) {
            *ret_clean = n == 0;
            return all;
        }
        all += (size_t)n;
    }
}

/* --- one connection ---------------------------------------------------------------------------- */

static int option(int fd, int level, int name) {
    int value = -1;
    socklen_t len = sizeof value;
    must(getsockopt(fd, level, name, &value, &len) == 0);
    return value;
}

/* The other end of our socket, in this process. */
static int server_side(int client) {
    struct sockaddr_in mine, peer;
    socklen_t len = sizeof mine;
    must(getsockname(client, (struct sockaddr *)&mine, &len) == 0);
    for (int fd = 0; fd < 1024; fd++) {
        len = sizeof peer;
        if (getpeername(fd, (struct sockaddr *)&peer, &len) == 0 && peer.sin_family == AF_INET && peer.sin_port == mine.sin_port) {
            return fd;
        }
    }
    return -1;
}

START_TEST(sockets_are_tuned) {        /* BR-058: dead peers are noticed; small replies are not delayed */
    struct door *d = door_new("127.0.0.1", 0);
    int fd = door_connect(door_number(d));
    door_ping(fd);
    int other = server_side(fd);
    ck_assert_int_ge(other, 0);
    ck_assert_int_ne(option(other, IPPROTO_TCP, TCP_NODELAY), 0);
    ck_assert_int_ne(option(other, SOL_SOCKET, SO_KEEPALIVE), 0);
    ck_assert_int_eq(option(other, IPPROTO_TCP, TCP_KEEPIDLE), 120);
    ck_assert_int_eq(option(other, IPPROTO_TCP, TCP_KEEPINTVL), 60);
    ck_assert_int_eq(option(other, IPPROTO_TCP, TCP_KEEPCNT), 3);
    close(fd);
    door_wait(d, is_closed, 1);
    struct door_counts end = door_free(d);
    ck_assert_int_eq(end.gone_ok, 1);
    ck_assert_int_eq(end.sends_ok, 1);
}
END_TEST

START_TEST(half_closed_client_gets_all_it_asked_for) {
    struct door *d = door_new("127.0.0.1", 0);
    int fd = door_connect(door_number(d));
    must(send(fd, "BB", 1, 0) == 1);
    must(shutdown(fd, SHUT_WR) == 0);
    bool clean;
    ck_assert_uint_eq(read_to_end(fd, &clean), DOOR_BIG_BYTES);
    ck_assert(clean);
    close(fd);
    door_wait(d, is_closed, 1);
    struct door_counts end = door_free(d);
    ck_assert_int_eq(end.gone_ok, 1);
    ck_assert_int_eq(end.sends_bad, 0);
}
END_TEST

/* The server closes after its reply while bytes of ours lie unread there: a plain close would reset and take the
 * reply with it. */
START_TEST(last_reply_arrives_although_bytes_are_unread) {
    struct door *d = door_new("127.0.0.1", 0);
    int fd = door_connect(door_number(d));
    static char much[1 << 20] = "A";
    must(send(fd, much, 1, 0) == 1);
    struct timeval brief = {.tv_usec = 1};
    must(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &brief, sizeof brief) == 0);
    (void)!send(fd, much, sizeof much, MSG_NOSIGNAL);  /* as much as fits */
    bool clean;
    ck_assert_uint_ge(read_to_end(fd, &clean), DOOR_BIG_BYTES);
    ck_assert(clean);
    close(fd);
    door_wait(d, is_closed, 1);
    struct door_counts end = door_free(d);
    ck_assert_int_eq(end.sends_bad, 0);
}
END_TEST

/* T62: resets at every stage; nothing leaks, nobody is told twice, and the next client is served. */
START_TEST(resets_at_any_time_are_survived) {
    struct door *d = door_new("127.0.0.1", 0);
    static const char *const asks[] = {"", "e", "B", "X", "A", "BBBB"};
    int n = 0;
    for (int round = 0; round < 40; round++) {
        for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++, n++) {
            int fd = door_connect(door_number(d));
            if (asks[i][0]) {
                must(send(fd, asks[i], strlen(asks[i]), MSG_NOSIGNAL) > 0);
            }
            if (round % 2 == 0 && asks[i][0] == 'B') {
                char first;
                must(recv(fd, &first, 1, 0) == 1);     /* the reply is on its way: cut it */
            }
            if (round % 3 == 0) {
                close(fd);
            } else {
                reset(fd);
            }
        }
    }
    door_wait(d, is_closed, n);
    int fd = door_connect(door_number(d));
    door_ping(fd);
    close(fd);
    struct door_counts end = door_free(d);
    ck_assert_int_gt(end.gone_bad, 0);
    ck_assert_int_gt(end.sends_bad, 0);
    ck_assert_int_eq(end.closed, n + 1);
}
END_TEST

START_TEST(door_ends_with_connections_in_every_state) {
    struct door *d = door_new("127.0.0.1", 0);
    int fds[60];
    for (int i = 0; i < 60; i++) {
        fds[i] = door_connect(door_number(d));
        must(send(fds[i], i % 3 == 0 ? "B" : "e", 1, 0) == 1);
    }
    door_wait(d, is_accepted, 60);
    struct door_counts end = door_free(d);             /* replies half sent, readers that do not read */
    ck_assert_int_eq(end.closed, 60);
    for (int i = 0; i < 60; i++) {
        close(fds[i]);
    }
}
END_TEST

/* --- where to listen --------------------------------------------------------------------------- */

static int connect_to(const char *host, uint16_t port) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *ai;
    must(getaddrinfo(host, NULL, &hints, &ai) == 0);
    int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (ai->ai_family == AF_INET6) {
        ((struct sockaddr_in6 *)(void *)ai->ai_addr)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)(void *)ai->ai_addr)->sin_port = htons(port);
    }
    int r = fd < 0 ? -1 : connect(fd, ai->ai_addr, ai->ai_addrlen);
    freeaddrinfo(ai);
    if (r != 0 && fd >= 0) {
        close(fd);
    }
    return r == 0 ? fd : -1;
}

static bool has_v6(void) {
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool ok = fd >= 0 && bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return ok;
}

START_TEST(hosts_are_what_they_say) {
    static const struct {
        const char *host;
        bool v4, v6;
    } rows[] = {{"127.0.0.1", true, false}, {"0.0.0.0", true, false}, {"::1", false, true}, {"::", true, true}, {"", true, true},
                {"localhost", true, false}};           /* localhost: also ::1 where the machine's hosts file says so */
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (!has_v6() && !rows[i].v4) {
            continue;
        }
        struct door *d = door_new(rows[i].host, 0);
        int v4 = connect_to("127.0.0.1", door_number(d));
        ck_assert_msg((v4 >= 0) == rows[i].v4, "'%s' and IPv4", rows[i].host);
        int v6 = connect_to("::1", door_number(d));
        ck_assert_msg((v6 >= 0) == (rows[i].v6 && has_v6()) || i == 5, "'%s' and IPv6", rows[i].host);
        if (v4 >= 0) {
            door_ping(v4);
            close(v4);
        }
        if (v6 >= 0) {
            door_ping(v6);
            close(v6);
        }
        (void)door_free(d);
    }
}
END_TEST

START_TEST(listening_fails_in_plain_words) {
    ck_assert(door_try("192.0.2.1", 0) == ERR_NOT_FOUND);          /* an address for documents: not this machine's */
    ck_assert(door_try("no such name", 0) == ERR_NOT_FOUND);
    ck_assert(door_try("127.0.0.1", 0) == ERR_OK);
    struct door *d = door_new("127.0.0.1", 0);
    ck_assert(door_try("127.0.0.1", door_number(d)) == ERR_LOCKED);
    ck_assert(door_try("", door_number(d)) == ERR_LOCKED);
    (void)door_free(d);
}
END_TEST

/* D3: a port in use is detected, also when its user is willing to share. */
START_TEST(port_of_a_sharing_stranger_is_in_use) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    int yes = 1;
    must(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &yes, sizeof yes) == 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof sa;
    must(bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0);
    must(listen(fd, 1) == 0);
    must(getsockname(fd, (struct sockaddr *)&sa, &len) == 0);
    ck_assert(door_try("127.0.0.1", ntohs(sa.sin_port)) == ERR_LOCKED);
    close(fd);
}
END_TEST

/* The server closed first, so its port is in TIME_WAIT: a restart must not have to wait. */
START_TEST(port_is_free_again_after_a_stop) {
    struct door *d = door_new("127.0.0.1", 0);
    uint16_t number = door_number(d);
    int fd = door_connect(number);
    must(send(fd, "X", 1, 0) == 1);
    bool clean;
    ck_assert_uint_eq(read_to_end(fd, &clean), 0);
    (void)door_free(d);
    close(fd);
    d = door_new("127.0.0.1", number);
    fd = door_connect(number);
    door_ping(fd);
    close(fd);
    (void)door_free(d);
}
END_TEST

/* --- descriptors run out (T57) ----------------------------------------------------------------- */

#define CROWD 300
#define CROWD_FDS 64

/* The server's process: says its number, serves until the pipe closes, reports by its exit code. */
static void crowd_server(int say, int until) {
    struct rlimit lim = {.rlim_cur = CROWD_FDS, .rlim_max = CROWD_FDS};
    must(setrlimit(RLIMIT_NOFILE, &lim) == 0);
    struct door *d = door_new("127.0.0.1", 0);
    uint16_t number = door_number(d);
    must(write(say, &number, sizeof number) == sizeof number);
    char c;
    must(read(until, &c, 1) == 0);
    struct door_counts end = door_free(d);
    /* Every accept opened a file beside: all of them found a descriptor. */
    _exit(end.accepted == CROWD && end.opens_failed == 0 ? 0 : 1);
}

/* Echoes of up to `max` waiting clients, until `quiet` ms pass without any; those are marked in held and no longer watched. Returns how many. */
static int serve_some(struct pollfd *fds, int *held, int max, int quiet) {
    int served = 0;
    while (served < max && poll(fds, CROWD, quiet) > 0) {
        for (int i = 0; i < CROWD; i++) {
            if (fds[i].fd >= 0 && fds[i].revents & (POLLIN | POLLHUP)) {
                char c = 0;
                ck_assert_int_eq(recv(fds[i].fd, &c, 1, 0), 1);        /* an echo, not a hang-up */
                held[i] = fds[i].fd;
                fds[i].fd = -1;
                served++;
            }
        }
    }
    return served;
}

/* Who was served leaves, one by one, and each makes room for one more: none of them eats the reserve. */
static int replace_each(struct pollfd *fds, int *held, int waiting) {
    int served = 0, then[CROWD];
    memcpy(then, held, sizeof then);
    for (int i = 0; i < CROWD && served < waiting; i++) {
        if (then[i] >= 0) {
            close(then[i]);
            held[i] = -1;
            served += serve_some(fds, held, 1, 5000);
        }
    }
    return served;
}

START_TEST(crowd_above_the_descriptor_limit_waits_and_is_served) {
    int say[2], until[2];
    must(pipe(say) == 0);
    must(pipe(until) == 0);
    pid_t pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        close(until[1]);
        crowd_server(say[1], until[0]);
    }
    close(until[0]);
    uint16_t number;
    must(read(say[0], &number, sizeof number) == sizeof number);
    struct pollfd fds[CROWD];
    int held[CROWD];
    for (int i = 0; i < CROWD; i++) {
        held[i] = -1;
        fds[i] = (struct pollfd){.fd = door_connect(number), .events = POLLIN};
        must(send(fds[i].fd, "e", 1, 0) == 1);
    }
    int served = serve_some(fds, held, CROWD, 1500);      /* then it is quiet: the others wait in the backlog */
    ck_assert_int_ge(served, CROWD_FDS / 4);
    ck_assert_int_lt(served, CROWD_FDS);
    while (served < CROWD) {
        int more = replace_each(fds, held, CROWD - served);
        ck_assert_int_gt(more, 0);
        served += more;
    }
    for (int i = 0; i < CROWD; i++) {
        if (held[i] >= 0) {
            close(held[i]);
        }
    }
    close(until[1]);
    int status;
    struct rusage used;
    must(wait4(pid, &status, 0, &used) == pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 0);
    /* It was quiet for well over a second: a loop that spins on EMFILE would have used most of that. */
    long ms_used = used.ru_utime.tv_sec * 1000 + used.ru_utime.tv_usec / 1000 + used.ru_stime.tv_sec * 1000 + used.ru_stime.tv_usec / 1000;
    ck_assert_int_lt(ms_used, 400);
}
END_TEST

int main(void) {
    Suite *s = suite_create("port_uv.net");
    TCase *tc = tcase_create("net");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, sockets_are_tuned);
    tcase_add_test(tc, half_closed_client_gets_all_it_asked_for);
    tcase_add_test(tc, last_reply_arrives_although_bytes_are_unread);
    tcase_add_test(tc, resets_at_any_time_are_survived);
    tcase_add_test(tc, door_ends_with_connections_in_every_state);
    tcase_add_test(tc, hosts_are_what_they_say);
    tcase_add_test(tc, listening_fails_in_plain_words);
    tcase_add_test(tc, port_of_a_sharing_stranger_is_in_use);
    tcase_add_test(tc, port_is_free_again_after_a_stop);
    tcase_add_test(tc, crowd_above_the_descriptor_limit_waits_and_is_served);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
