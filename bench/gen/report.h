#pragma once
/* report.h: from counters to the one line of JSON that a run prints. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf.h"
#include "procstat.h"
#include "tally.h"
#include "verify.h"

struct report {
    double seconds;         /* the measured window */
    double self_cpu_s;      /* the generator's, inside the window; then the difference */
    struct procstat broker; /* at the window's start; then the difference */
    size_t batch_size;
    uint64_t late_max_ns;
    bool verified;
    struct verify_result verify;
    /* Copies of the tally, taken before verify resets it. */
    uint64_t requests, records, bytes, read_records, read_bytes, fetches, errors, bad_crc, gaps, unstamped;
    uint64_t acked_records, acked_crc_sum; /* of the whole run, for a verify in another process */
    struct {
        double p50, p99, p999, max;
    } ack, e2e; /* ms */
    uint64_t next_progress_ns, progress_bytes;
};

void report_window_open(struct report *rp, const struct conf *cf);
void report_window_close(struct report *rp, const struct conf *cf, double seconds);
void report_take(struct report *rp, const struct conf *cf, const struct tally *tl);
/* A line of JSON on standard error every conf.report_s; resets tl->interval. */
void report_progress(struct report *rp, const struct conf *cf, struct tally *tl);
void report_print(const struct report *rp, const struct conf *cf);
/* No error code, no bad CRC, no gap, and verify (if run) agreed. */
bool report_good(const struct report *rp);
