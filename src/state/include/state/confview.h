/* One setting as it is told to a client: its value in effect, and every layer that says something about it, the one in effect first (S16.1, S16.2). Quiet. */
#pragma once

#include "state/meta.h"

enum confview_source {             /* as the Kafka API numbers them */
    CONFVIEW_TOPIC = 1,
    CONFVIEW_BROKER = 2,           /* dynamic, of this broker */
    CONFVIEW_BROKERS = 3,          /* dynamic, of all brokers */
    CONFVIEW_STATIC = 4,           /* file, environment, --set */
    CONFVIEW_DEFAULT = 5,
    CONFVIEW_METRICS = 7,
    CONFVIEW_GROUP = 8,
};

struct confview_layer {
    const char *name;              /* the key that says it: a topic's default stands under the broker's key, an older key under its own name */
    span value;                    /* units applied; null: no default, or a secret */
    enum confview_source source;
};
#define CONFVIEW_LAYERS_MAX 16

struct confview {
    const struct conf *conf;
    enum meta_kind kind;
    const struct meta_resource *one, *all;     /* dynamic settings of this broker, of all brokers; may be NULL */
    const struct topicconf_entry *own;         /* the resource's own settings; META_BROKER: not needed */
    size_t own_n;
    bool brokers;                  /* META_BROKER: what holds for all brokers, that is without this broker's own */
};

/* Borrows both until the turn ends; own and brokers are the caller's to fill in. */
void confview_init(struct confview *v, const struct meta *m, const struct conf *c, enum meta_kind kind);

struct confview_told {
    span value;                    /* in effect, in the unit of the key; null: not set, or a secret */
    struct confview_layer layers[CONFVIEW_LAYERS_MAX];
    size_t n;                      /* at least one: layers[0].source says where the value comes from */
};

/* k belongs to v->kind. Texts lie in a, or live as long as meta and conf. NOMEM. */
err confview_get(const struct confview *v, const struct conf_key *k, struct arena *a, struct confview_told *ret);
/* The flag of conf_key of this kind: CONF_TOPIC, ... */
uint32_t confview_where(enum meta_kind kind);
