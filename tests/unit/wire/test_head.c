/* Goal: the right header for each body, on both sides (S1.3, S2.1, S2.2, S2.3, S2.4). Method:
 * tables of bytes. */
#include "wire/head.h"

#include "base/run.h"

#define BYTES(...) ((span){(const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})})

static err get(span bytes, struct k_request_header *h, const struct msg_api **api, size_t *ret_left) {
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    struct rd r;
    rd_init(&r, bytes, &a);
    err e = head_request_get(&r, h, api);
    *ret_left = rd_left(&r);
    arena_done(&a);
    return e;
}

START_TEST(S2_1_flexible_bodies_have_flexible_headers) {
    const struct {
        span bytes;
        int key, v;
        bool known;
        size_t left;
        const char *client;
    } table[] = {
        {BYTES(0, 0, 0, 8, 0, 0, 0, 1, 0, 1, 'c', 0), 0, 8, true, 1, "c"},       /* produce 8: header 1, one byte of body */
        {BYTES(0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 'c', 0), 0, 9, true, 0, "c"},       /* produce 9: header 2; the name keeps its int16 (S2.2) */
        {BYTES(0, 3, 0, 12, 0, 0, 0, 1, 0xff, 0xff, 1, 7, 2, 'x', 'y', 'z'), 3, 12, true, 1, NULL},
        {BYTES(0, 18, 0, 0, 0, 0, 0, 1, 0, 0), 18, 0, true, 0, ""},
        {BYTES(0, 18, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2), 18, 3, true, 1, ""},
        {BYTES(0, 18, 0, 99, 0, 0, 0, 1, 0, 1, 'c', 0xff, 0xff), 18, 99, true, 2, "c"},  /* S2.4: not parsed further */
        {BYTES(0x7f, 0xff, 0, 0, 0, 0, 0, 1, 0xff, 0xff), 0x7fff, 0, false, 0, NULL},
        {BYTES(0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff), -1, -1, false, 0, NULL},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct k_request_header h;
        const struct msg_api *api;
        size_t left;
        ck_assert_int_eq(get(table[i].bytes, &h, &api, &left), ERR_OK);
        ck_assert_int_eq(h.api_key, table[i].key);
        ck_assert_int_eq(h.api_version, table[i].v);
        ck_assert_msg((api != NULL) == table[i].known, "row %zu", i);
        ck_assert_uint_eq(left, table[i].left);
        ck_assert(span_eq_str(h.client_id, table[i].client));
        ck_assert(!api || api->key == h.api_key);
    }
}
END_TEST

START_TEST(cut_or_nonsensical_headers_are_bad_frames) {
    const span whole = BYTES(0, 3, 0, 12, 0xff, 0xff, 0xff, 0xfe, 0, 1, 'c', 1, 7, 2, 'x', 'y');
    struct k_request_header h;
    const struct msg_api *api;
    size_t left;
    ck_assert_int_eq(get(whole, &h, &api, &left), ERR_OK);
    ck_assert_int_eq(h.correlation_id, -2);      /* S1.3 */
    for (size_t n = 0; n < whole.n; n++) {
        ck_assert_int_eq(get(span_of(whole.p, n), &h, &api, &left), ERR_BAD_FRAME);
    }
    ck_assert_int_eq(get(BYTES(0, 3, 0, 1, 0, 0, 0, 1, 0xff, 0xfe), &h, &api, &left), ERR_BAD_FRAME);
}
END_TEST

START_TEST(S2_3_answers_to_api_versions_have_header_zero) {
    for (size_t i = 0; i < K_APIS; i++) {
        const struct msg_api *api = &k_apis[i];
        for (int v = api->min; v <= api->max; v++) {
            struct arena a;
            struct chain c;
            arena_init(&a, NULL, 1 << 16);
            chain_init(&c, &a);
            struct wr w = wr_to(&c);
            struct k_response_header h, again;
            k_response_header_init(&h);
            h.correlation_id = -77;
            head_response_put(&h, api, v, &w);
            ck_assert_uint_eq(c.bytes, api->key != K_API_VERSIONS && v >= api->flexible ? 5 : 4);
            uint8_t bytes[8];
            chain_flatten(&c, bytes);
            struct rd r;
            rd_init(&r, span_of(bytes, c.bytes), &a);
            ck_assert_int_eq(head_response_get(&r, api, v, &again), ERR_OK);
            ck_assert_int_eq(again.correlation_id, -77);
            ck_assert_uint_eq(rd_left(&r), 0);
            arena_done(&a);
        }
    }
}
END_TEST

START_TEST(requests_are_written_as_they_are_read) {
    for (size_t i = 0; i < K_APIS; i++) {
        const struct msg_api *api = &k_apis[i];
        for (int16_t v = api->min; v <= api->max; v++) {
            struct arena a;
            struct chain c;
            arena_init(&a, NULL, 1 << 16);
            chain_init(&c, &a);
            struct wr w = wr_to(&c);
            struct k_request_header h, again;
            k_request_header_init(&h);
            h.api_key = api->key;
            h.api_version = v;
            h.client_id = SPAN_LIT("me");
            head_request_put(&h, api, &w);
            ck_assert_uint_eq(c.bytes, v >= api->flexible ? 13 : 12);
            uint8_t bytes[16];
            chain_flatten(&c, bytes);
            const struct msg_api *found;
            size_t left;
            ck_assert_int_eq(get(span_of(bytes, c.bytes), &again, &found, &left), ERR_OK);
            ck_assert_ptr_eq(found, api);
            ck_assert_uint_eq(left, 0);
            arena_done(&a);
        }
    }
}
END_TEST

int main(void) {
    return RUN("head", S2_1_flexible_bodies_have_flexible_headers, cut_or_nonsensical_headers_are_bad_frames,
               S2_3_answers_to_api_versions_have_header_zero, requests_are_written_as_they_are_read);
}
