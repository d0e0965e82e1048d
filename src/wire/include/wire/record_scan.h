/* A look at each record of a batch without holding it: sizes, times and what is null, from compressed bytes too, in bounded memory
 * (zip_stream.h). Everything is checked on the way: varints, lengths, header lists, and that count, records and bytes agree. Quiet; any thread.
 *
 * Usage: init; next until false; s.err says why it ended; done. */
#pragma once

#include "wire/zip_stream.h"

struct record_seen {
    off64 offset;                      /* absolute */
    ms ts_ms;                          /* as a reader sees it: max timestamp for LogAppendTime batches */
    int32_t delta;                     /* offset delta: 0 … last_offset_delta, not necessarily in order */
    int32_t key_bytes, value_bytes;    /* -1: null */
    int32_t headers_n;
};

struct record_scan {
    struct batch_head head;
    struct zip_stream z;
    uint8_t *buf;                      /* unpacked bytes pass through here; NULL: the records are read where they lie */
    const uint8_t *p, *end;
    size_t left;                       /* bytes of the record being read */
    int32_t n;                         /* records seen */
    err (*tap)(void *u, span piece);   /* gets all unpacked bytes, piece by piece, before they are looked at */
    void *tap_u;
    bool over;
    err err;
    const char *why;                   /* what is wrong, static storage; NULL with OK */
};

/* Start on a whole batch, which is borrowed. At most unzip_max bytes are unpacked. TORN and CORRUPT as batch_head_get, CORRUPT when the codec
 * does not exist or nothing is packed, NOMEM; needs no done when it fails. */
err record_scan_init(struct record_scan *s, span batch, size_t unzip_max);
/* False at the end. Then s->err is OK (head.count well-formed records were seen and nothing lies behind them), BAD_RECORD (what was unpacked is not
 * that), CORRUPT (cannot be unpacked), LIMIT (too large) or NOMEM. */
bool record_scan_next(struct record_scan *s, struct record_seen *ret_r);
/* Before the first next: every byte that is unpacked goes to tap, too; records that are not packed go there at once, in one piece. Its err ends the scan and becomes
 * s->err. */
err record_scan_tap(struct record_scan *s, err (*tap)(void *u, span piece), void *u);
void record_scan_done(struct record_scan *s);
