/* report.c: what a run says about itself.
 *
 * Purpose: one flat JSON object per run, so that a script can put runs side by side.
 * Happy path: open and close bracket the measured window; take copies the tally; print writes the line.
 * Failure modes: none of its own; it reports those of the run.
 * Runs on: the main thread. */
#include "report.h"

#include <stdio.h>

#include "clock.h"

void report_window_open(struct report *rp, const struct conf *cf) {
    rp->broker = procstat_read(cf->broker_pid);
    rp->self_cpu_s = procstat_self_cpu();
}

void report_window_close(struct report *rp, const struct conf *cf, double seconds) {
    struct procstat now = procstat_read(cf->broker_pid);
    rp->seconds = seconds;
    rp->self_cpu_s = procstat_self_cpu() - rp->self_cpu_s;
    now.cpu_s -= rp->broker.cpu_s;
    rp->broker = now;
}

static double report_ms(uint64_t ns) {
    return (double)ns * 1e-6;
}

void report_take(struct report *rp, const struct conf *cf, const struct tally *tl) {
    for (unsigned i = 0; i < cf->partitions; i++) {
        rp->acked_records += tl->parts[i].acked_records;
        rp->acked_crc_sum += tl->parts[i].acked_crc;
    }
    rp->requests = tl->requests;
    rp->records = tl->records;
    rp->bytes = tl->bytes;
    rp->read_records = tl->read_records;
    rp->read_bytes = tl->read_bytes;
    rp->fetches = tl->fetches;
    rp->errors = tl->errors;
    rp->bad_crc = tl->bad_crc;
    rp->gaps = tl->gaps;
    rp->unstamped = tl->unstamped;
    rp->ack.p50 = report_ms(hist_quantile(&tl->ack, 0.5));
    rp->ack.p99 = report_ms(hist_quantile(&tl->ack, 0.99));
    rp->ack.p999 = report_ms(hist_quantile(&tl->ack, 0.999));
    rp->ack.max = report_ms(tl->ack.max);
    rp->e2e.p50 = report_ms(hist_quantile(&tl->e2e, 0.5));
    rp->e2e.p99 = report_ms(hist_quantile(&tl->e2e, 0.99));
    rp->e2e.p999 = report_ms(hist_quantile(&tl->e2e, 0.999));
    rp->e2e.max = report_ms(tl->e2e.max);
}

void report_progress(struct report *rp, const struct conf *cf, struct tally *tl) {
    if (cf->report_s <= 0) {
        return;
    }
    uint64_t now = clock_ns();
    if (now < rp->next_progress_ns) {
        return;
    }
    if (rp->next_progress_ns) {
        fprintf(
            stderr,
            "{\"progress_mb_s\":%.1f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f,"
            "\"errors\":%llu}\n",
            (double)(tl->bytes - rp->progress_bytes) / 1e6 / cf->report_s, report_ms(hist_quantile(&tl->interval, 0.5)),
            report_ms(hist_quantile(&tl->interval, 0.99)), report_ms(hist_quantile(&tl->interval, 0.999)),
            report_ms(tl->interval.max), (unsigned long long)tl->errors);
    }
    rp->progress_bytes = tl->bytes;
    hist_clear(&tl->interval);
    rp->next_progress_ns = now + (uint64_t)(cf->report_s * 1e9);
}

static void report_print_conf(const struct report *rp, const struct conf *cf) {
    printf("{\"label\":\"%s\",\"mode\":\"%s\",\"acks\":%d,\"idempotent\":%s,\"partitions\":%u,\"connections\":%u,"
           "\"depth\":%u,\"record_bytes\":%zu,\"batch_size\":%zu,\"parts_per_request\":%u,\"rate\":%.0f",
           cf->label, conf_mode_name(cf->mode), cf->acks, cf->idempotent ? "true" : "false", cf->partitions,
           cf->connections, cf->depth, cf->record_bytes, rp->batch_size, cf->parts_per_request, cf->rate);
}

static void report_print_rates(const struct report *rp) {
    double s = rp->seconds > 0 ? rp->seconds : 1;
    double gb = (double)rp->bytes / 1e9, read_gb = (double)rp->read_bytes / 1e9;
    double moved = gb > 0 ? gb : read_gb;
    printf(",\"seconds\":%.2f,\"mb_s\":%.1f,\"requests_s\":%.0f,\"records_s\":%.0f,"
           "\"read_mb_s\":%.1f,\"read_records_s\":%.0f,\"fetches_s\":%.0f",
           rp->seconds, gb * 1e3 / s, (double)rp->requests / s, (double)rp->records / s, read_gb * 1e3 / s,
           (double)rp->read_records / s, (double)rp->fetches / s);
    printf(",\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f", rp->ack.p50, rp->ack.p99, rp->ack.p999,
           rp->ack.max);
    printf(",\"e2e_p50_ms\":%.3f,\"e2e_p99_ms\":%.3f,\"e2e_p999_ms\":%.3f,\"e2e_max_ms\":%.3f,\"late_max_ms\":%.3f",
           rp->e2e.p50, rp->e2e.p99, rp->e2e.p999, rp->e2e.max, report_ms(rp->late_max_ns));
    printf(
        ",\"gen_cpu\":%.2f,\"broker_cpu\":%.2f,\"broker_cpu_s_gb\":%.3f,\"broker_rss_mb\":%.1f,\"broker_peak_mb\":%.1f",
        rp->self_cpu_s / s, rp->broker.cpu_s / s, moved > 0 ? rp->broker.cpu_s / moved : 0,
        (double)rp->broker.rss_bytes / 1048576, (double)rp->broker.peak_bytes / 1048576);
}

void report_print(const struct report *rp, const struct conf *cf) {
    report_print_conf(rp, cf);
    report_print_rates(rp);
    printf(",\"acked_records\":%llu,\"acked_crc_sum\":%llu", (unsigned long long)rp->acked_records,
           (unsigned long long)rp->acked_crc_sum);
    printf(",\"errors\":%llu,\"bad_crc\":%llu,\"gaps\":%llu,\"unstamped\":%llu", (unsigned long long)rp->errors,
           (unsigned long long)rp->bad_crc, (unsigned long long)rp->gaps, (unsigned long long)rp->unstamped);
    if (rp->verified) {
        printf(",\"verify\":\"%s\",\"verify_records\":%llu,\"verify_crc_sum\":%llu,\"verify_mb_s\":%.1f",
               rp->verify.ok ? "ok" : "FAILED", (unsigned long long)rp->verify.records,
               (unsigned long long)rp->verify.crc_sum,
               rp->verify.seconds > 0 ? (double)rp->verify.bytes / 1e6 / rp->verify.seconds : 0);
    } else {
        printf(",\"verify\":\"none\"");
    }
    printf("}\n");
    fflush(stdout);
}

bool report_good(const struct report *rp) {
    return rp->errors == 0 && rp->bad_crc == 0 && rp->gaps == 0 && rp->unstamped == 0 &&
           (!rp->verified || rp->verify.ok);
}
