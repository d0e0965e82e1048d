/* What a value of a dynamic setting must keep beyond its own type and range: bounds that other settings set, forms of lists, and values that nobody could take back.
 * Failure modes: BAD_SETTING, or BAD_REQUEST where Kafka says so (brokers, metrics), with one line. Runs on: the shard that decides. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "meta_in.h"

/* "consumer.session.timeout.ms" is bounded by "group.consumer.min.session.timeout.ms" and its twin; NULL: by none. */
static const struct conf_key *bound_of(const struct conf_key *k, const char *which) {
    char name[100];
    const char *dot = strchr(k->name, '.');
    if (strcmp(k->name, "streams.num.standby.replicas") == 0) {
        snprintf(name, sizeof name, "group.streams.%s.standby.replicas", which);
    } else {
        snprintf(name, sizeof name, "group.%.*s.%s%s", (int)(dot - k->name), k->name, which, dot);
    }
    return conf_key_find(span_str(name), CONF_BROKER);
}

static err check_group(const struct conf *conf, const struct conf_key *k, int64_t v, struct meta_conf_why why) {
    const struct conf_key *least = bound_of(k, "min"), *most = bound_of(k, "max");
    if (least != NULL && v < conf_int(conf, least->name)) {
        snprintf(why.text, why.cap, "%s: %" PRId64 " is below %s, which is %" PRId64, k->name, v, least->name, conf_int(conf, least->name));
        return ERR_BAD_SETTING;
    }
    if (most != NULL && v > conf_int(conf, most->name)) {
        snprintf(why.text, why.cap, "%s: %" PRId64 " is above %s, which is %" PRId64, k->name, v, most->name, conf_int(conf, most->name));
        return ERR_BAD_SETTING;
    }
    return ERR_OK;
}

/* Items are selector=pattern. */
static err check_match(span list, struct meta_conf_why why) {
    static const char selectors[] = "client_id,client_instance_id,client_software_name,client_software_version,client_source_address,client_source_port";
    span item;
    while (list.n > 0 && conf_value_next(&list, &item)) {
        const uint8_t *equals = memchr(item.p, '=', item.n);
        span name = conf_value_trim(span_of(item.p, equals == NULL ? item.n : (size_t)(equals - item.p))), all = span_str(selectors), one;
        bool known = false;
        while (equals != NULL && conf_value_next(&all, &one)) {
            known = known || span_eq(one, name);
        }
        if (!known) {
            char shown[80];
            snprintf(why.text, why.cap, "match: '%s' is not selector=pattern; a selector is one of %s", span_printable(item, shown, sizeof shown), selectors);
            return ERR_BAD_SETTING;
        }
    }
    return ERR_OK;
}

/* max.connections=0 would refuse whoever could set it back. */
static err check_lockout(const struct conf_key *k, span value, struct meta_conf_why why) {
    int64_t v = 1;
    char unused[200];
    if (strcmp(k->name, "max.connections") == 0 && conf_value_int(k, value, &v, unused, sizeof unused) == ERR_OK && v < 1) {
        snprintf(why.text, why.cap, "max.connections: with 0 nobody could connect to change it back");
        return ERR_BAD_REQUEST;
    }
    return ERR_OK;
}

err meta_conf_check(const struct meta_conf *in, const struct conf_key *k, span value, struct meta_conf_why why) {
    struct topicconf_entry e = {span_str(k->name), value};
    int64_t v = 0;
    err er = in->kind == META_TOPIC ? topicconf_check(&e, 1, why.text, why.cap) : conf_value_check(k, value, why.text, why.cap);
    if (er != ERR_OK) {
        return in->kind == META_TOPIC || in->kind == META_GROUP ? er : ERR_BAD_REQUEST;
    }
    if (in->kind == META_BROKER) {
        return check_lockout(k, value, why);
    }
    if (in->kind == META_METRICS) {
        return strcmp(k->name, "match") == 0 ? check_match(value, why) : ERR_OK;
    }
    bool bounded = in->kind == META_GROUP && in->conf != NULL && k->type == CONF_INT && conf_value_int(k, value, &v, why.text, why.cap) == ERR_OK;
    return bounded ? check_group(in->conf, k, v, why) : ERR_OK;
}
