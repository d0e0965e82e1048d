/* Shared by the files of meta. */
#pragma once

#include "base/limits.h"
#include "state/meta.h"
#include "text.h"

struct meta_topic *meta_by_name_node(struct map_node *n);
/* Hash of a topic name (at most LIMIT_TOPIC_NAME bytes) in by_name; folded is the name with '.' turned into '_'. */
uint64_t meta_name_hash(const struct meta *m, span name, char folded[LIMIT_TOPIC_NAME]);
bool meta_folds_to(span name, const char *folded, size_t n);

/* meta_apply.c: is this a run of partitions that this broker can hold? DAMAGED, NEWER. */
struct r_meta_topic_run;
err meta_apply_check_run(const struct meta *m, const struct r_meta_topic_run *r);
/* meta_grow.c: the record of more partitions (r_meta_topic_growth), as meta_apply does it. */
err meta_grow_apply(struct meta *m, const void *body);

/* meta_conf.c: the settings' records (r_meta_topic_settings, r_meta_resource_settings), as meta_apply does them. */
err meta_conf_apply_topic(struct meta *m, const void *body);
err meta_conf_apply_resource(struct meta *m, const void *body);
/* meta_conf_check.c: may the setting k have this value? BAD_SETTING, BAD_REQUEST with one line. */
struct meta_conf_why {
    char *text;
    size_t cap;
};
err meta_conf_check(const struct meta_conf *in, const struct conf_key *k, span value, struct meta_conf_why why);
/* The broker's settings or its id changed: every topic's effective settings anew. */
void meta_conf_refresh(struct meta *m);
