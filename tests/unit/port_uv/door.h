/* A small echo server on a port of its own thread, for the tests of what is special to port_uv. Every count moves
 * under a lock, so a test waits for events and never sleeps.
 *
 * Protocol: bytes are echoed. A byte 'B' is answered by 8 MiB, 'X' by closing, 'A' by closing after 8 MiB. When
 * the client ends its side (FIN) everything still goes out before the door closes. */
#pragma once

#include "port_uv/port_uv.h"

#define DOOR_BIG_BYTES (8u << 20)

struct door;

struct door_counts {
    int accepted, open, closed;        /* connections */
    int gone_ok, gone_bad;
    int sends_ok, sends_bad;
    int opens_failed;                  /* of the file that each accept opens and closes, as a log's roll would */
};

/* Listen on host:port. */
struct door *door_new(const char *host, uint16_t port);
/* The err that listening on host:port gives, with nothing left behind. */
err door_try(const char *host, uint16_t port);
uint16_t door_number(const struct door *d);
/* Wait until pred holds of the counts, or fail the test. */
void door_wait(struct door *d, bool (*pred)(const struct door_counts *c, int n), int n);
struct door_counts door_now(struct door *d);
/* Close everything, join, free. Returns the last counts. */
struct door_counts door_free(struct door *d);

/* A blocking client socket to 127.0.0.1:number. */
int door_connect(uint16_t number);
/* Send one byte and wait for its echo. */
void door_ping(int fd);
