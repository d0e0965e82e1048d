/* More partitions for a topic that exists: what may be asked for, and the record's effect.
 * Happy path: the new total is larger, one record says what is added behind the partitions that are there; those keep data, leaders and epochs (S4.16).
 * Failure modes: the err of the first rule that is broken, with one line that names topic, counts and remedy; apply: DAMAGED for a record that does not go on where the
 * topic ends, NOMEM; either changed nothing. Runs on: the shard whose copy it is. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/must.h"
#include "meta_frame.h"
#include "meta_in.h"
#include "wire/r_meta.h"

#define META_GROW_BROKERS 1                        /* this node; a cluster counts its registrations */

/* Where the reason goes. */
struct meta_grow_why {
    char *text;
    size_t cap;
};

#define refuse(why, e, ...) (snprintf((why).text, (why).cap, __VA_ARGS__), (e))

static err check_count(const struct meta *m, const struct meta_grow *in, struct meta_grow_why why) {
    const struct meta_topic *t = in->topic;
    if (in->count <= 0) {
        return refuse(why, ERR_BAD_PARTITIONS, "%d partitions are not possible: topic '%s' has %d, ask for more", in->count, t->name, t->parts_n);
    }
    if (in->count == t->parts_n) {
        return refuse(why, ERR_BAD_PARTITIONS, "topic '%s' has %d partition%s already: ask for more", t->name, t->parts_n, t->parts_n == 1 ? "" : "s");
    }
    if (in->count < t->parts_n) {
        return refuse(why, ERR_BAD_PARTITIONS, "topic '%s' has %d partitions, %d are fewer: partitions cannot be taken away", t->name, t->parts_n, in->count);
    }
    if (in->count > LIMIT_PARTITIONS_PER_TOPIC) {
        return refuse(why, ERR_BAD_PARTITIONS, "%d partitions are too many: the most for one topic is %d", in->count, LIMIT_PARTITIONS_PER_TOPIC);
    }
    int64_t all = m->partitions_n + in->count - t->parts_n;
    if (all > LIMIT_PARTITIONS) {
        return refuse(why, ERR_LIMIT, "%d more partitions would make %lld, the most is %d", in->count - t->parts_n, (long long)all, LIMIT_PARTITIONS);
    }
    return ERR_OK;
}

static err check_assignment(const struct meta *m, int32_t part, span brokers, struct meta_grow_why why) {
    size_t n = brokers.n / sizeof(int32_t);
    if (n == 0) {
        return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d has no replicas", part);
    }
    for (size_t i = 0; i < n; i++) {
        int32_t id;
        memcpy(&id, brokers.p + i * sizeof id, sizeof id);
        if (id != m->node_id) {
            return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned to broker %d, which does not exist", part, id);
        }
    }
    if (n > META_GROW_BROKERS) {                   /* all of them are this broker */
        return refuse(why, ERR_BAD_ASSIGNMENT, "partition %d is assigned to broker %d twice", part, m->node_id);
    }
    return ERR_OK;
}

static err check_assignments(const struct meta *m, const struct meta_grow *in, struct meta_grow_why why) {
    int32_t added = in->count - in->topic->parts_n;
    if (in->assignments_n != added) {
        return refuse(why, ERR_BAD_ASSIGNMENT, "topic '%s' would get %d more partition%s, but %d assignment%s given: one for each is needed", in->topic->name, added,
                      added == 1 ? "" : "s", in->assignments_n, in->assignments_n == 1 ? " is" : "s are");
    }
    for (int32_t i = 0; i < added; i++) {
        err e = check_assignment(m, in->topic->parts_n + i, in->assignment_brokers[i], why);
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

err meta_grow_decide(const struct meta *m, const struct meta_grow *in, struct str *ret_frame, char *ret_why, size_t cap) {
    struct meta_grow_why why = {ret_why, cap};
    must(!in->topic->gone);
    err e = check_count(m, in, why);
    e = e == ERR_OK && in->has_manual ? check_assignments(m, in, why) : e;
    if (e != ERR_OK) {
        return e;
    }
    struct r_meta_topic_growth rec;
    struct r_meta_topic_growth_run run;
    int32_t node_id = m->node_id;
    r_meta_topic_growth_init(&rec);
    r_meta_topic_growth_run_init(&run);
    run.count = in->count - in->topic->parts_n;
    run.leader = node_id;
    run.replicas = run.isr = &node_id;
    run.replicas_n = run.isr_n = 1;
    rec.topic_id = in->topic->id;
    rec.first = in->topic->parts_n;
    rec.runs = &run;
    rec.runs_n = 1;
    e = meta_frame_put(ret_frame, R_META_TOPIC_GROWTH_KEY, &r_meta_topic_growth_msg, &rec);
    return e == ERR_OK ? e : refuse(why, e, "out of memory");
}

/* ---- apply ---- */

static err check_growth(const struct meta *m, const struct meta_topic *t, const struct r_meta_topic_growth *rec, int64_t *ret_added) {
    int64_t added = 0;
    if (t == NULL || rec->first != t->parts_n) {
        return ERR_DAMAGED;
    }
    for (int32_t i = 0; i < rec->runs_n; i++) {
        const struct r_meta_topic_growth_run *r = &rec->runs[i];
        struct r_meta_topic_run same = {.count = r->count, .leader = r->leader, .leader_epoch = r->leader_epoch, .replicas = r->replicas,
                                        .replicas_n = r->replicas_n, .isr = r->isr, .isr_n = r->isr_n};
        err e = meta_apply_check_run(m, &same);
        if (e != ERR_OK) {
            return e;
        }
        added += r->count;
    }
    *ret_added = added;
    return added > 0 && added <= LIMIT_PARTITIONS_PER_TOPIC - t->parts_n ? ERR_OK : ERR_DAMAGED;
}

err meta_grow_apply(struct meta *m, const void *body) {
    const struct r_meta_topic_growth *rec = body;
    struct meta_topic *t = meta_topic_by_id(m, rec->topic_id);
    int64_t added;
    err e = check_growth(m, t, rec, &added);
    if (e != ERR_OK) {
        return e;
    }
    struct meta_part *parts = mem_alloc(MEM_META, ((size_t)t->parts_n + (size_t)added) * sizeof *parts);
    if (parts == NULL) {
        return ERR_NOMEM;
    }
    memcpy(parts, t->parts, (size_t)t->parts_n * sizeof *parts);
    mem_free(t->parts_block);
    int32_t first = t->parts_n;
    t->parts = t->parts_block = parts;
    for (int32_t i = 0; i < rec->runs_n; i++) {
        for (int32_t k = 0; k < rec->runs[i].count; k++) {
            parts[t->parts_n++] = (struct meta_part){.leader = rec->runs[i].leader, .leader_epoch = rec->runs[i].leader_epoch};
        }
    }
    m->partitions_n += added;
    if (m->on_growth != NULL) {
        m->on_growth(m->u, t, first);
    }
    return ERR_OK;
}
