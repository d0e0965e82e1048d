// Base64, both ways, for the matrix program.
#include "b64.h"
#include <stdlib.h>
#include <string.h>

static const char ALPHABET[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

char *b64_encode(const void *data, size_t size) {
    const unsigned char *in = data;
    char *out = malloc((size + 2) / 3 * 4 + 1);
    char *at = out;
    for (size_t i = 0; i < size; i += 3) {
        unsigned b = (unsigned)in[i] << 16 | (i + 1 < size ? (unsigned)in[i + 1] << 8 : 0) | (i + 2 < size ? in[i + 2] : 0);
        *at++ = ALPHABET[b >> 18];
        *at++ = ALPHABET[b >> 12 & 63];
        *at++ = i + 1 < size ? ALPHABET[b >> 6 & 63] : '=';
        *at++ = i + 2 < size ? ALPHABET[b & 63] : '=';
    }
    *at = 0;
    return out;
}

unsigned char *b64_decode(const char *text, size_t *ret_size) {
    static signed char value[256];
    if (!value['B']) {
        memset(value, -1, sizeof value);
        for (int i = 0; i < 64; i++) {
            value[(unsigned char)ALPHABET[i]] = (signed char)i;
        }
    }
    unsigned char *out = malloc(strlen(text) / 4 * 3 + 1);
    size_t size = 0;
    unsigned bits = 0, have = 0;
    for (; *text && value[(unsigned char)*text] >= 0; text++) {
        bits = bits << 6 | (unsigned)value[(unsigned char)*text];
        have += 6;
        if (have >= 8) {
            have -= 8;
            out[size++] = (unsigned char)(bits >> have);
        }
    }
    *ret_size = size;
    return out;
}
