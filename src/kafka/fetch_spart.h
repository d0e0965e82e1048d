/* A partition of a fetch session with its watch. */
#pragma once

#include "broker/watch.h"
#include "conn.h"
#include "state/fsession.h"

struct fetch_spart {
    struct fsession_part p;            /* first: the cache makes and frees it */
    struct watch w;
    struct conn_set *set;
};
