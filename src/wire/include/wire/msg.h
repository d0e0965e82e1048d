/* What is known of any generated message without knowing which one it is. Quiet; any thread.
 *
 * Of each message `k_x` there are (in wire/k_<api>.h)
 *   k_x_init   every field at its default; an answer starts with this, and so does each struct within it
 *   k_x_get    decode version v. Arrays lie in r's arena, spans point into the frame: both must outlive m. OK,
 *              BAD_FRAME, NOMEM (or arena at its ceiling), BAD_VERSION; on an error m must not be looked at. Bytes
 *              left over are the caller's to judge: rd_left
 *   k_x_put    encode version v, which must exist. Fields that v lacks are not written. The chain says whether it went well
 *   k_x_print  for traces
 * An array `xs` has `xs_n` elements; xs_n is -1 for null. A null string has p == NULL. */
#pragma once

#include "base/str.h"
#include "wire/rd.h"
#include "wire/wr.h"

#define MSG_INFLEXIBLE INT16_MAX

struct msg {
    const char *name;                  /* "produce_req" */
    size_t bytes;                      /* of the struct */
    int16_t min, max, flexible;        /* versions that exist; first flexible one */
    void (*init)(void *m);
    err (*get)(void *m, struct rd *r, int v);
    void (*put)(const void *m, struct wr *w, int v);
    void (*print)(const void *m, struct str *s);
};

/* A row of the table in wire/k_api.h. */
struct msg_api {
    int16_t key;
    int16_t min, max;                  /* what can be read, and is advertised */
    int16_t serve_min, serve_max;      /* what is not refused */
    int16_t flexible;                  /* first flexible version, MSG_INFLEXIBLE for none */
    const char *name;                  /* "produce" */
    const struct msg *req, *resp;
};
