/* One segment of a log: bookkeeping of what is in it. Files are opened in files.c, written in write.c, read in
 * plog_cold.c.
 *
 * Happy path: seg_note per batch; after index.interval.bytes it adds an entry {last offset, position} of the batch
 * to the offset index and {largest timestamp so far, its batch's last offset} to the time index, exactly as Kafka
 * does, so that kafka-dump-log agrees.
 * Failure modes: none here; a full index makes seg_is_full true before an entry would not fit.
 * Runs on: owner shard. */
#include "seg.h"

#include "base/mem.h"
#include "base/must.h"

struct seg *seg_new(off64 base) {
    struct seg *sg = mem_zalloc(MEM_LOG, sizeof *sg);
    if (sg) {
        list_init(&sg->link);
        list_init(&sg->lru);
        list_init(&sg->loaded);
        sg->base = base;
        sg->first_ts = sg->max_ts = sg->time_last = -1;
        sg->max_ts_offset = sg->cold_off = -1;
    }
    return sg;
}

void seg_free(struct seg *sg) {
    if (!sg) {
        return;
    }
    must(!sg->file && sg->pins == 0 && sg->holds == 0);
    list_remove(&sg->link);
    list_remove(&sg->lru);
    list_remove(&sg->loaded);
    segidx_done(&sg->index);
    segidx_done(&sg->times);
    mem_free(sg);
}

static bool is_old(const struct seg *sg, const struct batch_head *h, const struct log_conf *conf, ms now) {
    ms waited = sg->first_ts >= 0 ? h->max_ts_ms - sg->first_ts : now - sg->born;
    return sg->size > 0 && waited > conf->segment_age - sg->jitter;
}

static bool indexes_are_full(const struct seg *sg, const struct log_conf *conf) {
    return segidx_count(&sg->index) >= (uint32_t)conf->index_bytes_max / SEGIDX_OFFSET_BYTES ||
           segidx_count(&sg->times) + 1 >= (uint32_t)conf->index_bytes_max / SEGIDX_TIME_BYTES;
}

bool seg_is_full(const struct seg *sg, const struct batch_head *h, const struct log_conf *conf, ms now) {
    if (sg->size == 0) {
        return batch_last_offset(h) - sg->base > INT32_MAX;
    }
    return sg->size > conf->segment_bytes - (int64_t)h->bytes || is_old(sg, h, conf, now) ||
           indexes_are_full(sg, conf) || batch_last_offset(h) - sg->base > INT32_MAX ||
           sg->size > INT32_MAX - (int64_t)h->bytes;
}

static void add_time(struct seg *sg) {
    if (sg->max_ts > sg->time_last) {
        segidx_add_time(&sg->times, sg->max_ts, (uint32_t)(sg->max_ts_offset - sg->base));
        sg->time_last = sg->max_ts;
    }
}

void seg_note(struct seg *sg, const struct batch_head *h, int32_t index_interval_bytes) {
    if (sg->first_ts < 0 && h->max_ts_ms >= 0) {
        sg->first_ts = h->max_ts_ms;
    }
    if (h->max_ts_ms > sg->max_ts) {
        sg->max_ts = h->max_ts_ms;
        sg->max_ts_offset = batch_last_offset(h);
    }
    if (sg->since_index > index_interval_bytes) {
        segidx_add_offset(&sg->index, (uint32_t)(batch_last_offset(h) - sg->base), (uint32_t)sg->size);
        add_time(sg);
        sg->since_index = 0;
    }
    sg->since_index += (int64_t)h->bytes;
    sg->size += (int64_t)h->bytes;
}

void seg_seal(struct seg *sg) {
    add_time(sg);
}
