/* Where one line for a person goes when something is refused: thing, reason, remedy. The buffer is the caller's; nothing is written on success. */
#pragma once

#include "base/types.h"

struct why {
    char *text;
    size_t cap;
};

#define WHY_IN(array) ((struct why){(array), sizeof(array)})
