/* Goal: our reader and writer agree byte for byte with encoders that nobody here wrote (the Java
 * client, kmsg), for every served API, version and direction. Method: each
 * <api>_<req|resp>_v<N>_<oracle>[_tags].bin holds [u32 length][body]...; each body is decoded, must
 * be used up, and encoded again to the same bytes; each body cut short must be refused (S1.6). In a
 * _tags file the bodies come in pairs, with unknown tagged fields and without: both must say the
 * same (S2.9). A version without any body fails.
 * usage: golden DIRECTORY */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "golden_file.h"
#include "wire/k_api.h"

#define VERSIONS 64
#define ARENA_BYTES ((size_t)64 << 20)
#define CUT_BYTES_MAX 3000               /* bodies up to this size are cut at every byte */

enum { REQ, RESP };

struct judge {
    unsigned bodies, cuts, failures;
    unsigned seen[K_APIS][2][VERSIONS];
};

struct body {
    const struct msg *msg;
    const char *file;
    unsigned index;
    int v;
    span bytes;
};

static void complain(struct judge *j, const struct body *b, const char *what) {
    fprintf(stderr, "FAIL %s, body %u (%zu bytes): %s\n", b->file, b->index, b->bytes.n, what);
    j->failures++;
}

static char *printed(const struct msg *msg, const void *m, struct arena *a) {
    struct str s;
    str_init(&s, ARENA_BYTES);
    msg->print(m, &s);
    char *text = s.bad ? NULL : arena_str(a, str_span(&s));
    str_done(&s);
    return text;
}

/* Take the unknown tags out of a printed form. True when there were any. */
static bool cut_unknown(char *text) {
    char *to = text;
    bool any = false;
    for (const char *from = text; from && *from;) {
        if (strncmp(from, " tag", 4) == 0 && from[4] >= '0' && from[4] <= '9') {
            from = strchr(from, '>') + 1;
            any = true;
        } else {
            *to++ = *from++;
        }
    }
    if (to) {
        *to = 0;
    }
    return any;
}

static const char *same_again(const struct body *b, const void *m, struct arena *a) {
    struct chain c;
    chain_init(&c, a);
    struct wr w = wr_to(&c), size = wr_measure();
    b->msg->put(m, &size, b->v);
    b->msg->put(m, &w, b->v);
    if (!chain_ok(&c)) {
        return "does not encode";
    }
    if (c.bytes != b->bytes.n || size.measured != b->bytes.n) {
        return "encodes to another length";
    }
    uint8_t *out = arena_alloc(a, c.bytes);
    chain_flatten(&c, out);
    return memcmp(out, b->bytes.p, b->bytes.n) == 0 ? NULL : "encodes to other bytes";
}

static bool accepted(const struct body *b, size_t n) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    void *m = arena_alloc(&a, b->msg->bytes);
    struct rd r;
    rd_init(&r, span_of(b->bytes.p, n), &a);
    bool ok = b->msg->get(m, &r, b->v) == ERR_OK;
    arena_done(&a);
    return ok;
}

static void judge_cuts(struct judge *j, const struct body *b) {
    size_t step = b->bytes.n <= CUT_BYTES_MAX ? 1 : b->bytes.n / CUT_BYTES_MAX + 1;
    for (size_t n = 0; n < b->bytes.n; n += step) {
        j->cuts++;
        if (accepted(b, n)) {
            complain(j, b, "is accepted although cut short");
            return;
        }
    }
}

/* Returns the printed form for the comparison of pairs; malloc'ed, NULL on a failure. `strange`: the body has tags
 * that nobody knows; in all others of the Java client's every tag is known to us, or a wrong tag number would pass
 * for an unknown one. (kmsg writes a tag in versions below the tag's own, too.) */
static char *judge_body(struct judge *j, const struct body *b, bool strange) {
    struct arena a;
    arena_init(&a, NULL, ARENA_BYTES);
    void *m = arena_alloc(&a, b->msg->bytes);
    struct rd r;
    rd_init(&r, b->bytes, &a);
    err e = b->msg->get(m, &r, b->v);
    const char *wrong = e ? err_text(e) : rd_left(&r) > 0 ? "is longer than what was read" : same_again(b, m, &a);
    char *text = NULL;
    j->bodies++;
    if (wrong) {
        complain(j, b, wrong);
    } else {
        char *full = printed(b->msg, m, &a);
        bool any = cut_unknown(full);
        if (any != strange && (strange || strstr(b->file, "_java"))) {
            complain(j, b, strange ? "has no unknown tag" : "has a tag that we do not know");
        }
        text = strdup(full);
        judge_cuts(j, b);
    }
    arena_done(&a);
    return text;
}

/* "listoffsets" against "list_offsets". */
static bool name_is(const char *plain, size_t n, const char *name) {
    size_t i = 0;
    for (; *name; name++) {
        if (*name != '_' && (i == n || plain[i++] != *name)) {
            return false;
        }
    }
    return i == n;
}

/* What a file holds by its name; false for other files. */
static bool parse_name(const char *file, size_t *ret_api, int *ret_side, int *ret_v) {
    const char *bar = strchr(file, '_');
    char side[8];
    if (!bar || sscanf(bar, "_%4[reqsp]_v%d_", side, ret_v) != 2) {
        return false;
    }
    *ret_side = strcmp(side, "req") == 0 ? REQ : RESP;
    for (size_t i = 0; i < K_APIS; i++) {
        if (name_is(file, (size_t)(bar - file), k_apis[i].name)) {
            *ret_api = i;
            return true;
        }
    }
    return false;
}

static void judge_file(struct judge *j, const char *dir, const char *file) {
    size_t api;
    int side, v;
    if (!parse_name(file, &api, &side, &v)) {
        return;
    }
    const struct msg *msg = side == REQ ? k_apis[api].req : k_apis[api].resp;
    struct body b = {.msg = msg, .file = file, .v = v};
    span all = golden_load(dir, file), rest = all;
    bool pairs = strstr(file, "_tags.bin") != NULL;
    char *first = NULL;
    for (; golden_next(&rest, &b.bytes); b.index++) {
        char *text = judge_body(j, &b, pairs && b.index % 2 == 0);
        j->seen[api][side][v]++;
        if (pairs && b.index % 2 == 1 && text && first && strcmp(text, first) != 0) {
            complain(j, &b, "says something else without unknown tags");
        }
        free(first);
        first = text;
    }
    free(first);
    if (rest.n > 0 || b.index == 0) {
        complain(j, &b, "file is empty or malformed");
    }
    golden_free(all);
}

static void judge_coverage(struct judge *j) {
    for (size_t i = 0; i < K_APIS; i++) {
        for (int v = k_apis[i].min; v <= k_apis[i].max; v++) {
            for (int side = REQ; side <= RESP; side++) {
                if (j->seen[i][side][v] == 0) {
                    fprintf(stderr, "FAIL no golden bytes of %s %s v%d\n", k_apis[i].name, side == REQ ? "request" : "response", v);
                    j->failures++;
                }
            }
        }
    }
}

int main(int argc, char **argv) {
    DIR *d = argc == 2 ? opendir(argv[1]) : NULL;
    if (!d) {
        fprintf(stderr, "usage: golden DIRECTORY\n");
        return 2;
    }
    static struct judge j;
    for (struct dirent *entry; (entry = readdir(d));) {
        size_t n = strlen(entry->d_name);
        if (n > 4 && strcmp(entry->d_name + n - 4, ".bin") == 0) {
            judge_file(&j, argv[1], entry->d_name);
        }
    }
    closedir(d);
    judge_coverage(&j);
    printf("golden: %u bodies judged, %u cuts refused, %u failures\n", j.bodies, j.cuts, j.failures);
    return j.failures == 0 ? 0 : 1;
}
