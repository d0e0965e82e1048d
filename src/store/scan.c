/* Judging stored batches: header, base offset chain, CRC (RELIABILITY 6, rule 2). Zeros, garbage, an older batch
 * from elsewhere and a batch with a wrong base offset all fail here (T8, T18).
 * Failure modes: TORN says "more bytes are needed", CORRUPT "no bytes can help". Runs on: any; no I/O. */
#include "scan.h"

err scan_batch(span b, off64 expect, bool crc, struct batch_head *ret_h) {
    struct batch_head h;
    ret_h->bytes = 0;
    if (b.n < BATCH_HEAD_BYTES) {
        return ERR_TORN;
    }
    if (batch_peek(b, &h) != ERR_OK) {
        return ERR_CORRUPT;
    }
    bool sane = h.base_offset == expect && h.last_offset_delta >= 0 && h.count >= 0 && h.bytes >= BATCH_HEAD_BYTES &&
                h.leader_epoch >= 0 && h.base_offset <= INT64_MAX - h.last_offset_delta - 1;
    if (!sane) {
        return ERR_CORRUPT;
    }
    *ret_h = h;
    if (h.bytes > b.n) {
        return ERR_TORN;
    }
    return crc && !batch_crc_ok(span_of(b.p, h.bytes)) ? ERR_CORRUPT : ERR_OK;
}
