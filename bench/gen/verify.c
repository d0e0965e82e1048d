/* verify.c: reading everything back after a load.
 *
 * Purpose: "a fast wrong broker is worth nothing": each load is followed by this.
 * Happy path: ListOffsets(-1) says where each log ends (end - start must be the records acknowledged); one pass of
 * fetches reads it; per partition the count and the sum of batch CRCs must equal what was acknowledged.
 * Failure modes: differences are counted and printed, ten at most; after errors in the replies the log may hold
 * more than was acknowledged, never less, and never more than was sent.
 * Runs on: the main thread, after the load. */
#include "verify.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "../common/die.h"
#include "clock.h"
#include "conn.h"
#include "fetch.h"
#include "rpc.h"

/* acks=0: what was sent may still be on its way; wait up to 10 s for the ends to reach it. */
static void verify_settle(const struct conf *cf, const struct tally *tl, int fd, int64_t *ends) {
    for (unsigned tries = 0; tries < 500; tries++) {
        rpc_offsets(fd, cf, -1, ends);
        uint64_t there = 0, sent = 0;
        for (unsigned i = 0; i < cf->partitions; i++) {
            there += (uint64_t)(ends[i] - tl->parts[i].start);
            sent += tl->parts[i].sent_records;
        }
        if (cf->acks != 0 || there >= sent) {
            return;
        }
        (void)poll(NULL, 0, 20);
    }
}

static bool verify_part(const struct tally *tl, unsigned i, int64_t end, int64_t position) {
    const struct tally_part *tp = &tl->parts[i];
    bool ok = position == end && (uint64_t)(end - tp->start) == tp->read_records;
    if (tl->errors == 0) {
        return ok && tp->read_records == tp->acked_records && tp->read_crc == tp->acked_crc;
    }
    return ok && tp->read_records >= tp->acked_records && tp->read_records <= tp->sent_records;
}

static void verify_compare(const struct conf *cf, const struct tally *tl, const struct fetch *ft, const int64_t *ends,
                           struct verify_result *ret) {
    for (unsigned i = 0; i < cf->partitions; i++) {
        if (verify_part(tl, i, ends[i], fetch_position(ft, i))) {
            continue;
        }
        if (ret->parts_wrong++ < 10) {
            const struct tally_part *tp = &tl->parts[i];
            fprintf(stderr,
                    "verify: partition %u: start %lld end %lld read to %lld; records sent %llu acked %llu read %llu\n",
                    i, (long long)tp->start, (long long)ends[i], (long long)fetch_position(ft, i),
                    (unsigned long long)tp->sent_records, (unsigned long long)tp->acked_records,
                    (unsigned long long)tp->read_records);
        }
    }
}

struct verify_result verify_run(const struct conf *cf, struct tally *tl, bool compare) {
    struct verify_result ret = {0};
    int64_t *starts = die_alloc(cf->partitions, sizeof *starts), *ends = die_alloc(cf->partitions, sizeof *ends);
    int fd = rpc_connect(cf, 60), ep = epoll_create1(EPOLL_CLOEXEC);
    verify_settle(cf, tl, fd, ends);
    tl->bad_crc = tl->gaps = tl->read_records = tl->read_bytes = 0;
    tl->window_from = 0;
    tl->window_to = UINT64_MAX;
    for (unsigned i = 0; i < cf->partitions; i++) {
        starts[i] = tl->parts[i].start;
        tl->parts[i].read_records = tl->parts[i].read_crc = 0;
    }
    uint64_t t = clock_ns();
    struct fetch *ft = fetch_new(cf, tl, ep, FETCH_ONCE, (struct fetch_span){starts, ends});
    for (fetch_turn(ft); !fetch_done(ft); fetch_turn(ft)) {
        conn_poll(ep, 1000);
    }
    ret.seconds = (double)(clock_ns() - t) * 1e-9;
    ret.records = tl->read_records;
    ret.bytes = tl->read_bytes;
    for (unsigned i = 0; i < cf->partitions; i++) {
        ret.crc_sum += tl->parts[i].read_crc;
    }
    if (compare) {
        verify_compare(cf, tl, ft, ends, &ret);
    }
    ret.ok = ret.parts_wrong == 0 && tl->bad_crc == 0 && tl->gaps == 0;
    if (!ret.ok) {
        fprintf(stderr, "verify: %llu partitions wrong, %llu batches with a bad CRC, %llu gaps\n", (unsigned long long)ret.parts_wrong, (unsigned long long)tl->bad_crc,
                (unsigned long long)tl->gaps);
    }
    fetch_free(ft);
    close(fd);
    close(ep);
    free(starts);
    free(ends);
    return ret;
}
