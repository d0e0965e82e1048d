/* The swarm: shape of the broker, of the load and of the trouble, drawn from the seed.
 *
 * Most dimensions are off or plain in most runs, so that each run combines a few; sizes shrink at random so that segments roll, indexes fill
 * and batches straddle pages within a few hundred records.
 * Failure modes: none.
 * Runs on: the test. */
#include "plan.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"

static int64_t between(struct prng *r, int64_t least, int64_t most) {
    return least + (int64_t)prng_below(r, (uint64_t)(most - least) + 1);
}

static bool one_in(struct prng *r, uint32_t n) {
    return prng_chance(r, 1, n);
}

static void setting(struct plan *p, const char *key, int64_t v) {
    must(p->settings_n < PLAN_SETTINGS);
    struct plan_setting *s = &p->settings[p->settings_n++];
    s->key = key;
    (void)snprintf(s->value, sizeof s->value, "%lld", (long long)v);
}

/* By a generator of its own, so that seeds of old draw the rest as they did. */
static void draw_codecs(struct prng r, struct plan *p) {
    for (size_t i = 0; i < p->topics_n; i++) {
        struct plan_topic *t = &p->topics[i];
        t->codec = t->message_max == 0 && one_in(&r, 4) ? (int)prng_below(&r, CODEC_ZSTD + 1) : -1;
        p->zstd = p->zstd || t->codec == CODEC_ZSTD;
    }
}

static void draw_topics(struct prng *r, struct plan *p) {
    p->topics_n = (size_t)between(r, 1, PLAN_TOPICS);
    for (size_t i = 0; i < p->topics_n; i++) {
        struct plan_topic *t = &p->topics[i];
        (void)snprintf(t->name, sizeof t->name, "topic-%zu", i);
        t->parts = (int32_t)between(r, 1, PLAN_PARTS);
        t->caching = one_in(r, 6);
        t->append_time = one_in(r, 5);
        t->segment_bytes = one_in(r, 2) ? between(r, 4000, 60000) : 1 << 20;
        t->retention_bytes = t->retention_age = -1;
        t->parts_first = one_in(r, 3) ? (int32_t)between(r, 1, t->parts) : t->parts;
        t->message_max = one_in(r, 8) ? between(r, 100, 4000) : 0;
        t->times_checked = one_in(r, 12);
    }
    draw_codecs(*r, p);
    p->meddles = one_in(r, 2);
}

static void draw_producers(struct prng *r, struct plan *p) {
    static const enum batch_codec codecs[] = {CODEC_NONE, CODEC_NONE, CODEC_NONE, CODEC_GZIP, CODEC_SNAPPY, CODEC_LZ4, CODEC_ZSTD};
    p->producers_n = (size_t)between(r, 1, PLAN_PRODUCERS);
    for (size_t i = 0; i < p->producers_n; i++) {
        struct plan_producer *pr = &p->producers[i];
        pr->idempotent = one_in(r, 2);
        pr->acks = pr->idempotent || one_in(r, 2) ? -1 : one_in(r, 4) ? 0 : 1;
        pr->window = (int)between(r, 1, 5);
        pr->batches = (int)between(r, 20, 400);
        pr->pause = one_in(r, 2) ? 0 : (ms)between(r, 1, 30);
        pr->records_max = one_in(r, 2) ? 1 : (int)between(r, 2, 30);
        pr->bytes_max = one_in(r, 3) ? 3000 : (int)between(r, 20, 300);
        pr->codec = codecs[prng_below(r, sizeof codecs / sizeof codecs[0])];
        p->zstd = p->zstd || pr->codec == CODEC_ZSTD;
    }
    p->consumers_n = (size_t)between(r, 0, PLAN_CONSUMERS);
}

static void draw_settings(struct prng *r, struct plan *p) {
    if (one_in(r, 2)) {
        setting(p, "store.sync.age.ms", between(r, 1, 200));
    }
    if (one_in(r, 6)) {
        setting(p, "max.incremental.fetch.session.cache.slots", between(r, 0, 3));
    }
    if (one_in(r, 3)) {
        setting(p, "store.unsynced.max", between(r, 65536, 200000));
    }
    if (one_in(r, 3)) {
        setting(p, "log.index.interval.bytes", between(r, 1, 4096));
    }
    if (one_in(r, 4)) {
        setting(p, "log.index.size.max.bytes", between(r, 24, 600));
    }
    if (one_in(r, 4)) {
        setting(p, "store.tail.bytes", between(r, 0, 100000));
    }
    if (one_in(r, 4)) {
        setting(p, "store.files.max", between(r, 16, 40));
    }
}

static void draw_latencies(struct prng *r, struct world_faults *f) {
    static const int64_t scale[] = {1, 1, 1, 10, 100};
    f->disk_us_max = 50 * scale[prng_below(r, 5)];
    f->sync_us_max = 500 * scale[prng_below(r, 4)];
    f->net_us_max = 100 * scale[prng_below(r, 5)];
    f->loop_us_max = 20 * scale[prng_below(r, 5)];
}

static void draw_trouble(struct prng *r, struct plan *p) {
    draw_latencies(r, &p->calm);
    p->faults = p->calm;
    p->nemesis_gap = between(r, 20, 400);
    p->safety = between(r, 200, 3000);
    p->power = one_in(r, 2) ? 4 : 0;
    p->kill = one_in(r, 2) ? 3 : 0;
    p->stop = one_in(r, 3) ? 2 : 0;
    p->crash_at = one_in(r, 2) ? 4 : 0;
    p->crash_in_boot = one_in(r, 2) ? 2 : 0;
    p->pause = one_in(r, 6) ? 1 : 0;
    p->jump = one_in(r, 6) ? 1 : 0;
    p->faults.sync_slow = one_in(r, 4) ? (uint32_t)between(r, 100, 10000) : 0;
    p->faults.net_cut = one_in(r, 3) ? (uint32_t)between(r, 10, 1000) : 0;
    if (one_in(r, 5)) {
        p->disk_errors = true;
        p->faults.write_eio = one_in(r, 2) ? (uint32_t)between(r, 10, 1000) : 0;
        p->faults.sync_eio = one_in(r, 2) ? (uint32_t)between(r, 10, 1000) : 0;
        p->faults.read_eio = one_in(r, 2) ? (uint32_t)between(r, 10, 1000) : 0;
    }
    if (one_in(r, 8)) {
        p->full = 2;
        p->faults.space_bytes = between(r, 200, 900) * 1000;
        setting(p, "store.space.reserve", between(r, 20000, 100000));
    }
    if (one_in(r, 10)) {
        p->lies = true;
        p->disk_errors = true;
        p->faults.sync_lost = one_in(r, 2) ? (uint32_t)between(r, 100, 5000) : 0;
        p->faults.write_astray = one_in(r, 2) ? (uint32_t)between(r, 100, 2000) : 0;
        p->faults.read_rot = one_in(r, 3) ? (uint32_t)between(r, 100, 2000) : 0;
    }
}

bool plan_goes(const struct plan_topic *t) {
    return t->deletes || t->retention_bytes >= 0 || t->retention_age >= 0;
}

/* The life of records: in half of the runs they stay. The producers' clock is behind, so retention by age takes everything, but for topics with
 * LogAppendTime. Drawn last: older seeds keep their plan otherwise. */
static void draw_life(struct prng *r, struct plan *p) {
    bool any = false, some = one_in(r, 2);
    for (size_t i = 0; some && i < p->topics_n; i++) {
        struct plan_topic *t = &p->topics[i];
        t->deletes = one_in(r, 2);
        t->retention_bytes = one_in(r, 3) ? between(r, 0, 60000) : -1;
        t->retention_age = one_in(r, 4) ? between(r, 50, 1000) : -1;
        any = any || plan_goes(t);
    }
    if (any) {
        setting(p, "log.retention.check.interval.ms", between(r, 5, 300));
    }
    setting(p, "log.retention.ms", -1);
}

void plan_draw(uint64_t seed, struct plan *ret) {
    static const uint32_t shards[] = {1, 2, 4};
    struct prng r;
    prng_seed(&r, seed ^ 0x706c616e);                  /* another stream than the world's */
    memset(ret, 0, sizeof *ret);
    ret->shards_change = one_in(&r, 4);
    for (size_t i = 0; i < sizeof ret->shards / sizeof ret->shards[0]; i++) {
        ret->shards[i] = i == 0 || ret->shards_change ? shards[prng_below(&r, 3)] : ret->shards[0];
    }
    draw_topics(&r, ret);
    draw_producers(&r, ret);
    draw_settings(&r, ret);
    draw_trouble(&r, ret);
    draw_life(&r, ret);
}

void plan_points(uint64_t seed, struct plan *ret) {
    plan_draw(seed, ret);
    *ret = (struct plan){.topics_n = 1, .producers_n = 2, .consumers_n = 1, .safety = 60, .calm = ret->calm, .faults = ret->calm};
    struct prng r;
    prng_seed(&r, seed ^ 0x706f696e7473);
    uint32_t shards = one_in(&r, 2) ? 1 : 2;
    for (size_t i = 0; i < sizeof ret->shards / sizeof ret->shards[0]; i++) {
        ret->shards[i] = shards;
    }
    ret->topics[0] = (struct plan_topic){.name = "topic-0", .parts = 2, .parts_first = 2, .segment_bytes = between(&r, 2500, 8000), .retention_bytes = -1, .retention_age = -1};
    ret->producers[0] = (struct plan_producer){.idempotent = true, .acks = -1, .window = 3, .batches = 20, .records_max = 3, .bytes_max = 400};
    ret->producers[1] = (struct plan_producer){.acks = 1, .window = 1, .batches = 8, .records_max = 1, .bytes_max = 400};
    setting(ret, "store.sync.age.ms", between(&r, 1, 20));
    setting(ret, "log.retention.ms", -1);
    if (one_in(&r, 2)) {
        ret->topics[0].deletes = true;
        ret->topics[0].retention_bytes = one_in(&r, 2) ? between(&r, 0, 6000) : -1;
        setting(ret, "log.retention.check.interval.ms", between(&r, 3, 20));
    }
}

void plan_crash(struct plan *p, uint64_t k) {
    p->crash_op = (k + 1) / 2;
    p->crash_power = k % 2 == 0;
    p->again_op = k % 5 == 0 ? 0 : 1 + k * 7 % 61;
    p->again_power = k / 2 % 2 == 0;
}

void plan_print(const struct plan *p, void (*on_line)(void *u, const char *line), void *u) {
    char line[400];
    const struct world_faults *f = &p->faults;
    (void)snprintf(line, sizeof line, "plan: shards=%u%s meddles=%d topics=%zu producers=%zu consumers=%zu safety=%lldms gap=%lldms", p->shards[0],
                   p->shards_change ? "(changing)" : "", p->meddles, p->topics_n, p->producers_n, p->consumers_n, (long long)p->safety,
                   (long long)p->nemesis_gap);
    on_line(u, line);
    (void)snprintf(line, sizeof line, "plan: power=%u kill=%u stop=%u crash_at=%u crash_in_boot=%u pause=%u jump=%u", p->power, p->kill,
                   p->stop, p->crash_at, p->crash_in_boot, p->pause, p->jump);
    on_line(u, line);
    (void)snprintf(line, sizeof line, "plan: write_eio=%u read_eio=%u sync_eio=%u sync_slow=%u sync_lost=%u write_astray=%u read_rot=%u "
                   "net_cut=%u space=%lld", f->write_eio, f->read_eio, f->sync_eio, f->sync_slow, f->sync_lost, f->write_astray, f->read_rot,
                   f->net_cut, (long long)f->space_bytes);
    on_line(u, line);
    for (size_t i = 0; i < p->topics_n; i++) {
        const struct plan_topic *t = &p->topics[i];
        (void)snprintf(line, sizeof line, "plan: %s parts=%d of %d message_max=%lld times_checked=%d caching=%d append_time=%d codec=%d segment.bytes=%lld retention.bytes=%lld retention.ms=%lld deletes=%d",
                       t->name, t->parts_first, t->parts, (long long)t->message_max, t->times_checked, t->caching, t->append_time, t->codec, (long long)t->segment_bytes, (long long)t->retention_bytes,
                       (long long)t->retention_age, t->deletes);
        on_line(u, line);
    }
    for (size_t i = 0; i < p->producers_n; i++) {
        const struct plan_producer *pr = &p->producers[i];
        (void)snprintf(line, sizeof line, "plan: producer %zu idempotent=%d acks=%d window=%d batches=%d records<=%d bytes<=%d codec=%d", i,
                       pr->idempotent, pr->acks, pr->window, pr->batches, pr->records_max, pr->bytes_max, pr->codec);
        on_line(u, line);
    }
    for (size_t i = 0; i < p->settings_n; i++) {
        (void)snprintf(line, sizeof line, "plan: %s=%s", p->settings[i].key, p->settings[i].value);
        on_line(u, line);
    }
}
