/* ApiVersions v0-4: what this broker serves.
 *
 * Behaviour: the list is the table of api.c with the schema's ranges, so it is the truth (S2.8). Produce is listed from 0 although 0-2 are refused, because librdkafka up to 2.10 asks for
 * "Produce 0" before it compresses (BR-002). Features are not reported until there are any to finalize.
 * Versions: an unknown one is answered with 35 in the layout of v0, naming only ApiVersions itself (S2.4, BR-001, KIP-511); v3+ the client's software name and version are checked (S2.6);
 * the response header is version 0 always (S2.3).
 * Runs on: home shard. */
#include <stdio.h>
#include <string.h>

#include "api.h"
#include "wire/k_api_versions.h"

static void api_versions_row(struct k_api_versions_resp_api *to, const struct msg_api *api) {
    k_api_versions_resp_api_init(to);
    to->api_key = api->key;
    to->min_version = api->min;
    to->max_version = api->max;
}

static bool api_versions_alnum(uint8_t c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* [a-zA-Z0-9]([a-zA-Z0-9\-.]*[a-zA-Z0-9])? */
static bool api_versions_is_software(span s) {
    if (s.n == 0 || !api_versions_alnum(s.p[0]) || !api_versions_alnum(s.p[s.n - 1])) {
        return false;
    }
    for (size_t i = 0; i < s.n; i++) {
        if (!api_versions_alnum(s.p[i]) && s.p[i] != '-' && s.p[i] != '.') {
            return false;
        }
    }
    return true;
}

static err api_versions_judge(struct rq *rq) {
    if (rq->v0_layout) {
        return ERR_BAD_VERSION;
    }
    const struct k_api_versions_req *q = rq->body;
    if (rq->version < 3) {
        return ERR_OK;
    }
    if (!api_versions_is_software(q->client_software_name) || !api_versions_is_software(q->client_software_version)) {
        return ERR_BAD_REQUEST;
    }
    snprintf(rq->cn->client, sizeof(rq->cn->client), "%.*s %.*s", (int)q->client_software_name.n, (const char *)q->client_software_name.p,
             (int)q->client_software_version.n, (const char *)q->client_software_version.p);
    return ERR_OK;
}

void api_versions_run(struct rq *rq) {
    struct k_api_versions_resp *r = rq_array(rq, 1, sizeof(*r));
    struct k_api_versions_resp_api *rows = rq_array(rq, api_rows_n, sizeof(*rows));
    if (r == NULL || rows == NULL) {
        rq_fail(rq, ERR_NOMEM);
        return;
    }
    k_api_versions_resp_init(r);
    err e = api_versions_judge(rq);
    r->error_code = errmap_code(e);
    r->api_keys = rows;
    if (e == ERR_BAD_VERSION) {
        api_versions_row(&rows[r->api_keys_n++], k_api_find(K_API_VERSIONS));
    } else if (e == ERR_OK) {
        for (size_t i = 0; i < api_rows_n; i++) {
            api_versions_row(&rows[r->api_keys_n++], k_api_find(api_rows[i].key));
        }
    }
    rq_reply(rq, r);
}
