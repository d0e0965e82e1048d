/* A producer snapshot, as read from a file, and what the windows do afterwards. Input: flags, length of the file u16, the file, then small steps.
 *
 * Holds: what loads is written back and loads again to the same file; what is refused changes nothing; after any steps a batch that check
 * accepts can be reserved and noted, is a duplicate then, and is no longer one when it is taken back. S6.1 to 6.9. */
#include <string.h>

#include "base/be.h"
#include "base/crc.h"
#include "base/mem.h"
#include "base/str.h"
#include "fuzz.h"
#include "state/prodwin.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)

static void written(const struct prodwin *w, struct str *ret) {
    str_init(ret, FILE_BYTES_MAX);
    must(prodwin_snapshot(w, ret) == ERR_OK);
}

static void round_trip(const struct prodwin *w) {
    struct str once, twice;
    struct prodwin *again = NULL;
    written(w, &once);
    if (once.n > 0) {
        must(prodwin_load(&again, str_span(&once), 5) == ERR_OK);
        must(prodwin_count(again) == prodwin_count(w));
        written(again, &twice);
        must(span_eq(str_span(&once), str_span(&twice)));
        str_done(&twice);
    }
    str_done(&once);
    prodwin_free(again);
}

struct walker {
    struct prodwin *w;
    off64 next, stable;
    ms now;
};

static void append(struct walker *wk, const uint8_t *p) {
    struct batch_head h = {.base_offset = wk->next, .max_ts_ms = wk->now, .producer_id = p[0] & 7, .producer_epoch = (int16_t)(p[0] >> 6),
                           .base_sequence = p[1] & 15, .last_offset_delta = p[1] >> 6};
    h.count = h.last_offset_delta + 1;
    h.attributes = p[0] & 32 ? BATCH_ATTR_CONTROL : 0;
    h.base_sequence = p[0] & 32 ? -1 : h.base_sequence;
    struct prodwin_answer a;
    if (prodwin_check(wk->w, &h, &a) != ERR_OK || a.verdict == PRODWIN_DUPLICATE || wk->next > INT64_MAX - 1000) {
        return;
    }
    must(prodwin_reserve(&wk->w, &h, 3) == ERR_OK);
    prodwin_note(wk->w, &h, wk->now);
    wk->next = batch_last_offset(&h) + 1;
    if ((h.attributes & BATCH_ATTR_CONTROL) == 0) {
        must(prodwin_check(wk->w, &h, &a) == ERR_OK && a.verdict == PRODWIN_DUPLICATE && a.base_offset == h.base_offset);
        if (p[0] & 16) {
            prodwin_undo(wk->w, h.base_offset);
            wk->next = h.base_offset;
            must(prodwin_check(wk->w, &h, &a) != ERR_OK || a.verdict != PRODWIN_DUPLICATE || a.base_offset != h.base_offset);
        }
    }
}

static void steps(struct walker *wk, span in) {
    for (size_t at = 0; at + 3 <= in.n && at < 600; at += 3) {
        const uint8_t *p = in.p + at;
        wk->now += p[2] & 31;
        switch (p[2] >> 5) {
        case 0:
            prodwin_stable(wk->w, wk->stable = wk->next);
            break;
        case 1:
            prodwin_undo(wk->w, wk->stable);
            wk->next = wk->stable;
            break;
        case 2:
            (void)prodwin_expire(wk->w, wk->now, p[1]);
            break;
        default:
            append(wk, p);
            break;
        }
        must(prodwin_count(wk->w) <= prodwin_entries(wk->w));
    }
}

/* The offset after the newest batch in a file that loads: the log goes on behind it. */
static off64 end_of(const uint8_t *file) {
    off64 end = 0;
    for (uint32_t i = 0; i < be32_get(file + 6); i++) {
        off64 last = (off64)be64_get(file + 10 + (size_t)i * 46 + 14);
        end = last >= end ? last + (last < INT64_MAX) : end;
    }
    return end;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    if (n < 3 || n > 8000) {
        return -1;
    }
    size_t file_n = be16_get(data + 1);
    file_n = file_n < n - 3 ? file_n : n - 3;
    uint8_t *file = mem_alloc(MEM_TEST, file_n);
    must(file != NULL);
    memcpy(file, data + 3, file_n);
    if (data[0] & 1 && file_n >= 10) {
        be16_put(file, 1);
        be32_put(file + 2, crc32c(file + 6, file_n - 6));
    }
    struct walker wk = {.w = NULL};
    err e = prodwin_load(&wk.w, span_of(file, file_n), 9);
    must(e == ERR_OK || (e == ERR_DAMAGED && wk.w == NULL));
    if (e == ERR_OK) {
        round_trip(wk.w);
        wk.next = wk.stable = end_of(file);
    }
    mem_free(file);
    steps(&wk, span_of(data + 3 + file_n, n - 3 - file_n));
    round_trip(wk.w);
    prodwin_free(wk.w);
    must(mem_live(MEM_PROD) == 0);
    return 0;
}

void fuzz_seeds(void (*on)(void *u, span input), void *u) {
    for (int producers = 0; producers < 6; producers++) {
        struct walker wk = {.next = 1 << 20};
        uint8_t input[2000] = {1};
        struct str file;
        for (int i = 0; i < producers * producers; i++) {
            append(&wk, (const uint8_t[]){(uint8_t)(i % producers), (uint8_t)(i / producers), 255});
        }
        written(wk.w, &file);
        be16_put(input + 1, (uint16_t)file.n);
        if (file.n > 0) {
            memcpy(input + 3, file.p, file.n);
        }
        for (size_t i = 0; i < 90; i++) {
            input[3 + file.n + i] = (uint8_t)(i * 37 + (i % 3 == 2 ? 97 : 0));
        }
        on(u, span_of(input, 3 + file.n + 90));
        str_done(&file);
        prodwin_free(wk.w);
    }
}
