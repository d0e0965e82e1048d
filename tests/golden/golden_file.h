/* Files of [u32 big endian length][bytes]..., as the foreign encoders write them. For test
 * programs: gives up on the first trouble. */
#pragma once

#include "base/span.h"

span golden_load(const char *dir, const char *file);       /* the whole file; golden_free. dir "": file is a path */
void golden_free(span file);
bool golden_next(span *rest, span *ret_bytes);             /* false at the end, or on a length that cannot be */
