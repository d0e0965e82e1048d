/* ASCII classes: the C library's follow a locale, settings and names do not. */
#pragma once

#include "base/types.h"

static inline bool text_is_digit(uint8_t c) { return c >= '0' && c <= '9'; }
static inline bool text_is_alnum(uint8_t c) { return text_is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static inline bool text_is_space(uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline char text_upper(uint8_t c) { return (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); }
