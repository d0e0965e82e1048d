/* 16-byte ids and their base64url text.
 *
 * Happy path: an id is made from random bytes the port supplied, printed as 22 characters, parsed back to the same bytes.
 * Failure modes: uuid_parse refuses every text but the one uuid_text would print (wrong length, foreign characters, non-zero spare
 * bits), so an id has exactly one spelling.
 * Runs on: any thread. */
#include "base/uuid.h"

#include <string.h>

#define UUID_TEXT_LEN (UUID_TEXT_CAP - 1)

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

bool uuid_is_zero(uuid u) {
    return uuid_eq(u, (uuid){0});
}

bool uuid_eq(uuid a, uuid b) {
    return memcmp(a.b, b.b, sizeof a.b) == 0;
}

int uuid_cmp(uuid a, uuid b) {
    return memcmp(a.b, b.b, sizeof a.b);
}

uuid uuid_from_random(const uint8_t random[16]) {
    uuid u;
    memcpy(u.b, random, sizeof u.b);
    u.b[6] = (uint8_t)((u.b[6] & 0x0f) | 0x40);   /* the version makes it differ from zero and one */
    u.b[8] = (uint8_t)((u.b[8] & 0x3f) | 0x80);
    if (u.b[0] >> 2 == 62) {                      /* a text that starts with '-' would read as an option on a command line */
        u.b[0] ^= 0x80;
    }
    return u;
}

void uuid_text(uuid u, char *ret) {
    uint32_t bits = 0;
    unsigned have = 0;
    for (size_t i = 0; i < sizeof u.b; i++) {
        bits = bits << 8 | u.b[i];
        for (have += 8; have >= 6; have -= 6) {
            *ret++ = alphabet[bits >> (have - 6) & 63];
        }
    }
    *ret++ = alphabet[bits << (6 - have) & 63];
    *ret = 0;
}

static int digit_of(uint8_t c) {
    const char *at = c ? strchr(alphabet, c) : NULL;
    return at ? (int)(at - alphabet) : -1;
}

err uuid_parse(span text, uuid *ret_u) {
    if (text.n != UUID_TEXT_LEN) {
        return ERR_BAD_REQUEST;
    }
    uuid u;
    uint32_t bits = 0;
    unsigned have = 0;
    size_t made = 0;
    for (size_t i = 0; i < text.n; i++) {
        int digit = digit_of(text.p[i]);
        if (digit < 0) {
            return ERR_BAD_REQUEST;
        }
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            u.b[made++] = (uint8_t)(bits >> have);
        }
    }
    if ((bits & ((1u << have) - 1)) != 0) {
        return ERR_BAD_REQUEST;
    }
    *ret_u = u;
    return ERR_OK;
}
