/* Entries of the durable marks' file, big-endian, fixed size (FORMAT.md).
 * Failure modes: an entry that passed its frame's CRC and still contradicts itself is DAMAGED. Runs on: any; no I/O. */
#include "marks_file.h"

#include <string.h>

#include "base/be.h"

#define FLAG_PRODUCERS 1u
#define FLAG_UNSETTLED 2u
#define FLAG_GONE 4u

void marks_file_put(uint8_t *p, const struct datadir_mark *m, bool gone) {
    memcpy(p, m->topic_id.b, 16);
    be32_put(p + 16, (uint32_t)m->partition);
    be32_put(p + 20,
             (m->has_producers ? FLAG_PRODUCERS : 0) | (m->unsettled ? FLAG_UNSETTLED : 0) | (gone ? FLAG_GONE : 0));
    be32_put(p + 24, (uint32_t)m->leader_epoch);
    be32_put(p + 28, m->segments);
    const int64_t v[] = {
        m->epoch_start,   m->start,          m->end,          m->segment,       m->position,
        m->bytes,         m->first_ts,       m->max_ts,       m->max_ts_offset, m->heavy,
        m->heavy_segment, m->heavy_position, m->timeindex_ts, m->heavy_max_ts,  m->heavy_max_ts_offset};
    p += 32;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++, p += 8) {
        be64_put(p, (uint64_t)v[i]);
    }
    be32_put(p, m->index_entries);
    be32_put(p + 4, m->timeindex_entries);
    memset(p + 8, 0, MARKS_ENTRY_BYTES - 32 - sizeof v - 8);
}

static bool is_sane(const struct datadir_mark *m) {
    return m->partition >= 0 && m->start >= 0 && m->start <= m->end && m->heavy <= m->end && m->position >= 0 &&
           m->bytes >= m->position && m->segment <= m->end && (m->segments > 0 || m->bytes == 0);
}

err marks_file_get(const uint8_t *p, struct datadir_mark *ret, bool *ret_gone) {
    struct datadir_mark m = {.partition = (int32_t)be32_get(p + 16),
                             .leader_epoch = (int32_t)be32_get(p + 24),
                             .segments = be32_get(p + 28)};
    memcpy(m.topic_id.b, p, 16);
    uint32_t flags = be32_get(p + 20);
    m.has_producers = flags & FLAG_PRODUCERS;
    m.unsettled = flags & FLAG_UNSETTLED;
    int64_t *const v[] = {
        &m.epoch_start,   &m.start,          &m.end,          &m.segment,       &m.position,
        &m.bytes,         &m.first_ts,       &m.max_ts,       &m.max_ts_offset, &m.heavy,
        &m.heavy_segment, &m.heavy_position, &m.timeindex_ts, &m.heavy_max_ts,  &m.heavy_max_ts_offset};
    p += 32;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++, p += 8) {
        *v[i] = (int64_t)be64_get(p);
    }
    m.index_entries = be32_get(p);
    m.timeindex_entries = be32_get(p + 4);
    if (!(flags & FLAG_GONE) && !is_sane(&m)) {
        return ERR_DAMAGED;
    }
    *ret = m;
    *ret_gone = flags & FLAG_GONE;
    return ERR_OK;
}
