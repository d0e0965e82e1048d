/* Headers of requests and responses.
 *
 * Happy path: key and version stand in the same place in every header, so they are looked at first
 * and decide how to read the rest.
 * Failure modes: a header that ends early, or with nonsense in its tags, is BAD_FRAME. Unknown keys
 * and versions are not judged here.
 * Runs on: any. */
#include "wire/head.h"

#include "base/must.h"

static bool in_range(const struct msg_api *api, int v) {
    return api && v >= api->min && v <= api->max;
}

err head_request_get(struct rd *r, struct k_request_header *ret_h, const struct msg_api **ret_api) {
    if (rd_left(r) < 4) {
        rd_fail(r);
        return ERR_BAD_FRAME;
    }
    int v = (int16_t)be16_get(r->p + 2);
    const struct msg_api *api = k_api_find((int16_t)be16_get(r->p));
    bool flexible = in_range(api, v) && v >= api->flexible;
    struct k_request_header h;
    err e = k_request_header_get(&h, r, flexible ? 2 : 1);
    if (e) {
        return e;
    }
    *ret_h = h;
    *ret_api = api;
    return ERR_OK;
}

void head_request_put(const struct k_request_header *h, const struct msg_api *api, struct wr *w) {
    must(h->api_key == api->key);
    must(in_range(api, h->api_version));
    k_request_header_put(h, w, h->api_version >= api->flexible ? 2 : 1);
}

static int response_version(const struct msg_api *api, int v) {
    return api->key != K_API_VERSIONS && v >= api->flexible ? 1 : 0;
}

void head_response_put(const struct k_response_header *h, const struct msg_api *api, int v, struct wr *w) {
    k_response_header_put(h, w, response_version(api, v));
}

err head_response_get(struct rd *r, const struct msg_api *api, int v, struct k_response_header *ret_h) {
    struct k_response_header h;
    err e = k_response_header_get(&h, r, response_version(api, v));
    if (e) {
        return e;
    }
    *ret_h = h;
    return ERR_OK;
}
