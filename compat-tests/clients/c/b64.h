// Base64 as the contract writes byte strings. Memory is the caller's to free.
#pragma once
#include <stddef.h>

char *b64_encode(const void *data, size_t size);
unsigned char *b64_decode(const char *text, size_t *ret_size);   // one byte longer than *ret_size, so that empty is not null
