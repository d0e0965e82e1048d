/* Happy path: {"kafka":["127.0.0.1:9092"],...} appears under its name whole or not at all. Failure modes: the path cannot be written: the caller says so and stops.
 * Runs on: shard 0. */
#include "ready.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "version.h"

static void ready_address(FILE *f, const struct node_listener *l) {
    bool any = l->host[0] == '\0' || strcmp(l->host, "0.0.0.0") == 0 || strcmp(l->host, "::") == 0;
    const char *host = any || strcmp(l->host, "localhost") == 0 ? "127.0.0.1" : l->host;
    bool v6 = strchr(host, ':') != NULL;
    fprintf(f, "\"%s%s%s:%u\"", v6 ? "[" : "", host, v6 ? "]" : "", (unsigned)l->bound_port);
}

bool ready_write(const char *path, const struct node *n) {
    char temp[4096];
    snprintf(temp, sizeof(temp), "%s.tmp", path);
    FILE *f = fopen(temp, "we");
    if (f == NULL) {
        return false;
    }
    fputs("{\"kafka\":[", f);
    for (size_t i = 0; i < n->conf.listeners_n; i++) {
        fputs(i == 0 ? "" : ",", f);
        ready_address(f, &n->conf.listeners[i]);
    }
    fprintf(f, "],\"native\":[],\"admin\":[],\"peer\":[],\"pid\":%d,\"version\":\"%s\"}\n", (int)getpid(), PERIGEE_VERSION);
    bool ok = fflush(f) == 0 && !ferror(f);
    ok = fclose(f) == 0 && ok;
    return ok && rename(temp, path) == 0;
}

void ready_remove(const char *path) {
    if (path != NULL) {
        (void)unlink(path);                        /* it may be gone already */
    }
}
