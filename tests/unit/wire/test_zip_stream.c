/* Goal: unpacking piece by piece gives the same bytes as was packed, whatever the pieces, and never
 * holds more than a window and a block (T55, S5.17).
 * Method: streams of every codec with every kind of block, read in drawn pieces; streams with spoilt
 * bytes against unpacking all at once; bombs, with the allocator's count looked at after each piece. */
#include "wire/zip_stream.h"

#include "base/prng.h"
#include "base/torture.h"
#include "bomb.h"
#include "wire/zip.h"

#define CEILING ((size_t)LIMIT_UNZIP_BYTES_MIN)
#define CODECS (CODEC_ZSTD + 1)
#define MIXED_BYTES ((size_t)9 << 20)
#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

static struct arena arena;
static void start(void) { arena_init(&arena, NULL, 512 << 20); }
static void finish(void) { arena_done(&arena); }

/* Runs, repeats from near and from far, and noise: whatever a codec finds to do. */
static uint8_t *mixed(struct prng *rng, size_t n) {
    uint8_t *p = malloc(n + 1);
    for (size_t at = 0; at < n;) {
        size_t take = 1 + (size_t)prng_below(rng, 5000);
        take = take < n - at ? take : n - at;
        switch (prng_below(rng, 3)) {
        case 0:
            memset(p + at, (int)prng_below(rng, 256), take);
            break;
        case 1:
            prng_bytes(rng, p + at, take);
            break;
        default:
            for (size_t i = 0, back = 1 + (size_t)prng_below(rng, at + 1); i < take; i++) {
                p[at + i] = at + i >= back ? p[at + i - back] : 'x';
            }
        }
        at += take;
    }
    return p;
}

static size_t draw_piece(struct prng *rng) {
    static const size_t kinds[] = {1, 2, 10, 1000, 65536, 65537, 300000};
    return 1 + (size_t)prng_below(rng, kinds[prng_below(rng, sizeof kinds / sizeof *kinds)]);
}

/* Read all of it in drawn pieces; OK when exactly `want` came out. */
static err read_all(enum batch_codec codec, span packed, span want, struct prng *rng) {
    struct zip_stream z;
    err e = zip_stream_init(&z, codec, packed, want.n);
    if (e) {
        return e;
    }
    size_t at = 0;
    while (e == ERR_OK && !z.ended) {
        size_t n = draw_piece(rng), got;
        uint8_t *p = malloc(n);                  /* its own block, so that a sanitizer sees its end */
        e = zip_stream_read(&z, p, n, &got);
        if (e == ERR_OK) {
            ck_assert(got == n || z.ended);
            ck_assert_uint_le(at + got, want.n);
            ck_assert_int_eq(memcmp(p, want.p + at, got), 0);
            at += got;
            ck_assert_uint_eq(z.out, at);
        }
        free(p);
    }
    if (e == ERR_OK) {
        size_t got = 77;
        uint8_t byte;
        ck_assert_uint_eq(at, want.n);
        ck_assert_int_eq(zip_stream_read(&z, &byte, 1, &got), ERR_OK);
        ck_assert_uint_eq(got, 0);
    }
    zip_stream_done(&z);
    return e;
}

START_TEST(S5_17_pieces_make_up_what_was_packed) {
    static const size_t sizes[] = {0, 1, 2, 100, 32767, 32768, 32769, 65535, 65536, 65537, 300000, 3000000};
    struct prng rng;
    prng_seed(&rng, 31 + (uint64_t)_i);
    for (size_t i = 0; i < 40; i++) {
        size_t n = i < sizeof sizes / sizeof *sizes ? sizes[i] : (size_t)prng_below(&rng, 200000);
        uint8_t *p = mixed(&rng, n);
        span packed;
        ck_assert_int_eq(zip_pack((enum batch_codec)_i, span_of(p, n), &arena, &packed), ERR_OK);
        uint8_t *exact = malloc(packed.n);
        memcpy(exact, packed.p, packed.n);
        ck_assert_int_eq(read_all((enum batch_codec)_i, span_of(exact, packed.n), span_of(p, n), &rng), ERR_OK);
        if (n > 0) {
            ck_assert_int_eq(read_all((enum batch_codec)_i, span_of(exact, packed.n), span_of(p, n - 1), &rng), ERR_LIMIT);
        }
        free(exact);
        free(p);
        finish();
        start();
    }
}
END_TEST

/* ---- what other encoders write */

static size_t bound(size_t n) {
    return n + n / 4 + 100000;
}

static span pack_lz4(span in, const LZ4F_frameInfo_t *info) {
    LZ4F_preferences_t prefs = {.frameInfo = *info};
    uint8_t *p = arena_alloc(&arena, bound(in.n));
    size_t n = LZ4F_compressFrame(p, bound(in.n), in.p, in.n, &prefs);
    ck_assert(!LZ4F_isError(n));
    return span_of(p, n);
}

START_TEST(S5_17_lz4_frames_of_every_kind) {
    struct prng rng;
    prng_seed(&rng, 8);
    uint8_t *p = mixed(&rng, MIXED_BYTES);
    for (LZ4F_blockSizeID_t size = LZ4F_max64KB; size <= LZ4F_max4MB; size++) {
        for (int linked = 0; linked <= 1; linked++) {
            LZ4F_frameInfo_t info = {.blockSizeID = size, .blockMode = linked ? LZ4F_blockLinked : LZ4F_blockIndependent,
                                     .contentChecksumFlag = LZ4F_contentChecksumEnabled, .contentSize = MIXED_BYTES};
            span packed = pack_lz4(span_of(p, MIXED_BYTES), &info);
            ck_assert_int_eq(read_all(CODEC_LZ4, packed, span_of(p, MIXED_BYTES), &rng), ERR_OK);
        }
    }
    free(p);
}
END_TEST

START_TEST(S5_17_zstd_frames_of_every_window) {
    struct prng rng;
    prng_seed(&rng, 9);
    uint8_t *p = mixed(&rng, MIXED_BYTES), *packed = malloc(bound(MIXED_BYTES));
    for (int window = 10; window <= LIMIT_ZSTD_WINDOW_LOG + 1; window++) {
        ZSTD_CCtx *c = ZSTD_createCCtx();
        ZSTD_CCtx_setParameter(c, ZSTD_c_windowLog, window);
        ZSTD_CCtx_setParameter(c, ZSTD_c_checksumFlag, 1);
        size_t n = ZSTD_compress2(c, packed, bound(MIXED_BYTES), p, MIXED_BYTES);
        ck_assert(!ZSTD_isError(n));
        ZSTD_freeCCtx(c);
        err e = read_all(CODEC_ZSTD, span_of(packed, n), span_of(p, MIXED_BYTES), &rng);
        ck_assert_msg(e == (window <= LIMIT_ZSTD_WINDOW_LOG ? ERR_OK : ERR_LIMIT), "window 2^%d: %s", window, err_name(e));
    }
    free(p);
    free(packed);
}
END_TEST

static size_t put_snappy(uint8_t *to, const uint8_t *from, size_t n) {
    size_t used = snappy_max_compressed_length(n);
    ck_assert_int_eq(snappy_compress((const char *)from, n, (char *)to, &used), SNAPPY_OK);
    return used;
}

START_TEST(S5_17_snappy_raw_and_with_xerial_blocks_of_any_size) {
    struct prng rng;
    prng_seed(&rng, 10);
    size_t most = LIMIT_SNAPPY_BLOCK_BYTES + 1;
    uint8_t *p = mixed(&rng, most), *packed = malloc(snappy_max_compressed_length(most));
    static const size_t raw[] = {0, 1, 65536, 1000000, LIMIT_SNAPPY_BLOCK_BYTES, LIMIT_SNAPPY_BLOCK_BYTES + 1};
    for (size_t i = 0; i < sizeof raw / sizeof *raw; i++) {
        size_t n = put_snappy(packed, p, raw[i]);
        err e = read_all(CODEC_SNAPPY, span_of(packed, n), span_of(p, raw[i]), &rng);
        ck_assert_int_eq(e, raw[i] <= LIMIT_SNAPPY_BLOCK_BYTES ? ERR_OK : ERR_LIMIT);
    }
    memcpy(packed, "\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
    size_t at = 16, done = 0;
    while (done < 2000000) {
        size_t n = prng_chance(&rng, 1, 5) ? 0 : draw_piece(&rng);
        size_t used = put_snappy(packed + at + 4, p + done, n);
        be32_put(packed + at, (uint32_t)used);
        at += 4 + used;
        done += n;
    }
    ck_assert_int_eq(read_all(CODEC_SNAPPY, span_of(packed, at), span_of(p, done), &rng), ERR_OK);
    free(p);
    free(packed);
}
END_TEST

START_TEST(streams_in_a_row_are_one) {
    span a, b;
    struct prng rng;
    prng_seed(&rng, 11);
    ck_assert_int_eq(zip_pack((enum batch_codec)_i, SPAN_LIT("one "), &arena, &a), ERR_OK);
    ck_assert_int_eq(zip_pack((enum batch_codec)_i, SPAN_LIT("two"), &arena, &b), ERR_OK);
    uint8_t *both = arena_alloc(&arena, a.n + b.n);
    memcpy(both, a.p, a.n);
    memcpy(both + a.n, b.p, b.n);
    for (int round = 0; round < 50; round++) {
        ck_assert_int_eq(read_all((enum batch_codec)_i, span_of(both, a.n + b.n), SPAN_LIT("one two"), &rng), ERR_OK);
    }
}
END_TEST

/* ---- lies */

START_TEST(spoilt_streams_fail_as_when_unpacked_at_once) {
    struct prng rng;
    prng_seed(&rng, 50 + (uint64_t)_i);
    unsigned sound = 0, bad = 0;
    for (int round = 0; round < 2000; round++) {
        uint8_t *p = mixed(&rng, 700);
        span packed, out;
        ck_assert_int_eq(zip_pack((enum batch_codec)_i, span_of(p, 700), &arena, &packed), ERR_OK);
        free(p);
        if (prng_chance(&rng, 1, 3)) {
            packed.n = (size_t)prng_below(&rng, packed.n);
        } else {
            ((uint8_t *)(uintptr_t)packed.p)[prng_below(&rng, packed.n)] ^= (uint8_t)(1 + prng_below(&rng, 255));
        }
        err e = zip_unpack((enum batch_codec)_i, packed, 100000, &arena, &out);
        err piecewise = e == ERR_OK ? read_all((enum batch_codec)_i, packed, out, &rng) : ERR_OK;
        if (e != ERR_OK) {
            struct zip_stream z;
            uint8_t buf[64];
            size_t got;
            piecewise = zip_stream_init(&z, (enum batch_codec)_i, packed, 100000);
            bool open = piecewise == ERR_OK;
            while (piecewise == ERR_OK && !z.ended) {
                piecewise = zip_stream_read(&z, buf, 1 + (size_t)prng_below(&rng, sizeof buf), &got);
            }
            if (open) {
                ck_assert_int_eq(zip_stream_read(&z, buf, 1, &got), piecewise);      /* an error stays */
                zip_stream_done(&z);
            }
        }
        ck_assert_int_eq(piecewise, e);
        sound += e == ERR_OK;
        bad += e != ERR_OK;
        finish();
        start();
    }
    ck_assert_uint_gt(bad, 100);
    ck_assert_uint_gt(sound + bad, 1000);
}
END_TEST

START_TEST(T55_a_snappy_block_that_lies_buys_no_memory) {
    const struct {
        span in;
        err want;
    } table[] = {
        {BYTES(1, 0, 'x'), ERR_OK},
        {BYTES(2, 0, 'x'), ERR_CORRUPT},                                           /* one byte more than there is */
        {BYTES(0xff, 0xff, 0xff, 0xff, 0x0f, 0, 'x'), ERR_CORRUPT},                /* 2^32-1 */
        {BYTES(0x80, 0x80, 0x80, 0x20, 0, 'x'), ERR_CORRUPT},                      /* 64 MiB out of two bytes */
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1), ERR_OK},      /* nothing, framed */
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 4, 1, 0, 'x'), ERR_CORRUPT},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 1, 0, 'x'), ERR_CORRUPT},
        {BYTES(0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0), ERR_CORRUPT},
        {{(const uint8_t *)"", 0}, ERR_CORRUPT},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct zip_stream z;
        uint8_t byte;
        size_t got, live = mem_live_all();
        err e = zip_stream_init(&z, CODEC_SNAPPY, table[i].in, CEILING);
        if (e == ERR_OK) {
            e = zip_stream_read(&z, &byte, 1, &got);
            ck_assert_uint_le(mem_live_all() - live, 200);
            zip_stream_done(&z);
        }
        ck_assert_msg(e == table[i].want, "row %zu: %s", i, err_name(e));
        ck_assert_uint_eq(mem_live_all(), live);
    }
}
END_TEST

START_TEST(T55_claimed_content_sizes_are_not_believed) {
    /* zstd, single segment, content size 2^62. */
    span in = BYTES(0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x09, 0, 0, 'x');
    struct zip_stream z;
    uint8_t byte;
    size_t got, live = mem_live_all();
    ck_assert_int_eq(zip_stream_init(&z, CODEC_ZSTD, in, CEILING), ERR_OK);
    size_t open = mem_live_all();
    ck_assert_int_eq(zip_stream_read(&z, &byte, 1, &got), ERR_LIMIT);
    ck_assert_uint_eq(mem_live_all(), open);
    zip_stream_done(&z);
    ck_assert_uint_eq(mem_live_all(), live);
}
END_TEST

START_TEST(codecs_that_do_not_exist_are_corrupt) {
    span in = BYTES(1, 0, 'x');
    struct zip_stream z;
    for (int codec = -1; codec <= 8; codec++) {
        bool real = codec >= CODEC_GZIP && codec <= CODEC_ZSTD;
        ck_assert_int_eq(zip_stream_init(&z, (enum batch_codec)codec, in, 100), real ? ERR_OK : ERR_CORRUPT);
        if (real) {
            zip_stream_done(&z);
        }
    }
}
END_TEST

/* ---- bombs */

START_TEST(T55_bombs_cost_a_window_and_a_block) {
    static const size_t most[CODECS] = {0, (size_t)64 << 10, ((size_t)1 << 20) + 4096, ((size_t)8 << 20) + (256 << 10), ((size_t)8 << 20) + (512 << 10)};
    struct sink bomb = bomb_make((enum batch_codec)_i);
    size_t live = mem_live_all(), peak = 0, got;
    static uint8_t buf[65536];
    struct zip_stream z;
    ck_assert_int_eq(zip_stream_init(&z, (enum batch_codec)_i, span_of(bomb.p, bomb.n), CEILING), ERR_OK);
    err e = ERR_OK;
    for (size_t at = 0; e == ERR_OK; at += got) {
        ck_assert_uint_le(at, CEILING);
        ck_assert(!z.ended);
        e = zip_stream_read(&z, buf, sizeof buf, &got);
        peak = mem_live_all() - live > peak ? mem_live_all() - live : peak;
    }
    ck_assert_int_eq(e, ERR_LIMIT);
    ck_assert_uint_eq(z.out, CEILING);
    ck_assert_uint_le(peak, most[_i]);
    ck_assert_uint_gt(peak, most[_i] / 3);       /* all of it comes from our allocator, or there were nothing to watch */
    zip_stream_done(&z);
    ck_assert_uint_eq(mem_live_all(), live);
    free(bomb.p);
}
END_TEST

/* ---- memory */

static enum batch_codec tortured;

static void stream_through(void) {
    start();
    static uint8_t zeros[200000], buf[5000];
    span packed;
    struct zip_stream z;
    if (zip_pack(tortured, span_of(zeros, sizeof zeros), &arena, &packed) == ERR_OK) {
        err e = zip_stream_init(&z, tortured, packed, sizeof zeros);
        bool open = e == ERR_OK;
        size_t got;
        while (e == ERR_OK && !z.ended) {
            e = zip_stream_read(&z, buf, sizeof buf, &got);
        }
        ck_assert(e == ERR_NOMEM || (e == ERR_OK && z.out == sizeof zeros));
        if (open) {
            zip_stream_done(&z);
        }
    }
    finish();
}

START_TEST(every_refused_allocation_is_survived) {
    tortured = (enum batch_codec)_i;
    ck_assert_uint_gt(torture(stream_through), 3);
}
END_TEST

int main(void) {
    TCase *tc = tcase_create("zip_stream");
    tcase_add_checked_fixture(tc, start, finish);
    tcase_set_timeout(tc, 100);
    tcase_add_loop_test(tc, S5_17_pieces_make_up_what_was_packed, CODEC_GZIP, CODECS);
    tcase_add_test(tc, S5_17_lz4_frames_of_every_kind);
    tcase_add_test(tc, S5_17_zstd_frames_of_every_window);
    tcase_add_test(tc, S5_17_snappy_raw_and_with_xerial_blocks_of_any_size);
    tcase_add_loop_test(tc, streams_in_a_row_are_one, CODEC_GZIP, CODEC_SNAPPY);
    tcase_add_loop_test(tc, streams_in_a_row_are_one, CODEC_ZSTD, CODECS);
    tcase_add_loop_test(tc, spoilt_streams_fail_as_when_unpacked_at_once, CODEC_GZIP, CODECS);
    tcase_add_test(tc, T55_a_snappy_block_that_lies_buys_no_memory);
    tcase_add_test(tc, T55_claimed_content_sizes_are_not_believed);
    tcase_add_test(tc, codecs_that_do_not_exist_are_corrupt);
    tcase_add_loop_test(tc, T55_bombs_cost_a_window_and_a_block, CODEC_GZIP, CODECS);
    tcase_add_loop_test(tc, every_refused_allocation_is_survived, CODEC_GZIP, CODECS);
    return run_suite("zip_stream", tc);
}
