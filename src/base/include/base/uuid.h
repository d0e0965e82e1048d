/* Topic ids and cluster ids: 16 bytes, most significant first. Zero means "no id" (semantics 2.15). */
#pragma once

#include "base/err.h"
#include "base/span.h"

typedef struct uuid {
    uint8_t b[16];
} uuid;

#define UUID_TEXT_CAP 23   /* 22 base64url characters and NUL */

bool uuid_is_zero(uuid u);
bool uuid_eq(uuid a, uuid b);
int uuid_cmp(uuid a, uuid b);
/* Make 16 random bytes a version-4 id that is neither zero nor one. */
uuid uuid_from_random(const uint8_t random[16]);
/* base64url without padding, as Kafka prints ids. ret has room for UUID_TEXT_CAP bytes. */
void uuid_text(uuid u, char *ret);
err uuid_parse(span text, uuid *ret_u);
