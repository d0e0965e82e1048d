/* Headers of requests and responses, and which version of them goes with which body (S2.1, S2.2, S2.3). Quiet; any thread. */
#pragma once

#include "wire/k_api.h"
#include "wire/k_header.h"

/* Read the header at the front of a frame (without its size). ret_api is NULL for an unknown key; for a version
 * outside [min, max] the tags of a flexible header are left unread, since nobody knows what that version looks
 * like. BAD_FRAME. */
err head_request_get(struct rd *r, struct k_request_header *ret_h, const struct msg_api **ret_api);
/* For clients. api and h->api_version must fit each other. */
void head_request_put(const struct k_request_header *h, const struct msg_api *api, struct wr *w);
/* ApiVersions is answered with header version 0 whatever its own version, so that a client of any age can read it. */
void head_response_put(const struct k_response_header *h, const struct msg_api *api, int v, struct wr *w);
err head_response_get(struct rd *r, const struct msg_api *api, int v, struct k_response_header *ret_h);
