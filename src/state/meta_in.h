/* Shared by the files of meta. */
#pragma once

#include "base/limits.h"
#include "state/meta.h"
#include "text.h"

struct meta_topic *meta_by_name_node(struct map_node *n);
/* Hash of a topic name (at most LIMIT_TOPIC_NAME bytes) in by_name; folded is the name with '.' turned into '_'. */
uint64_t meta_name_hash(const struct meta *m, span name, char folded[LIMIT_TOPIC_NAME]);
bool meta_folds_to(span name, const char *folded, size_t n);
