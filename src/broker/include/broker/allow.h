/* May this principal do this to that? Every handler asks from the first day; the answer is yes until security lands, and no in a deny-all test build. */
#pragma once

#include "base/span.h"

enum allow_op { ALLOW_READ, ALLOW_WRITE, ALLOW_CREATE, ALLOW_DELETE, ALLOW_ALTER, ALLOW_DESCRIBE, ALLOW_CLUSTER_ACTION, ALLOW_DESCRIBE_CONFIGS, ALLOW_ALTER_CONFIGS,
                ALLOW_IDEMPOTENT_WRITE };
enum allow_kind { ALLOW_TOPIC, ALLOW_GROUP, ALLOW_CLUSTER, ALLOW_TXN_ID };

struct allow_who {
    const char *principal;             /* "User:ANONYMOUS" */
    const char *host;
};

bool allow(const struct allow_who *who, enum allow_op op, enum allow_kind kind, span name);
