/* The doors for Kafka clients and what they are told to dial: `listeners` joined with advertised.listeners.
 * Happy path: every listener that is not a controller's becomes an endpoint. Failure modes: contradictions between settings, each with one
 * line for a person (BR-040, BR-041). Runs on: boot, config check. */
#include "state/conf.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool list_has(span list, const char *name) {
    span item;
    size_t n = strlen(name);
    while (conf_value_next(&list, &item)) {
        if (item.n == n && strncasecmp((const char *)item.p, name, n) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_controller(const struct conf *c, const char *name) { return list_has(span_str(conf_str(c, "controller.listener.names")), name); }

/* The security protocol of a listener name: from the map, else the name itself where it is one; SPAN_NULL: unknown. */
static span protocol_of(const struct conf *c, const char *name) {
    span list = span_str(conf_str(c, "listener.security.protocol.map")), item;
    size_t n = strlen(name);
    while (conf_value_next(&list, &item)) {
        if (item.n > n && item.p[n] == ':' && strncasecmp((const char *)item.p, name, n) == 0) {
            return conf_value_trim(span_of(item.p + n + 1, item.n - n - 1));
        }
    }
    return SPAN_NULL;
}

static err check_protocol(const struct conf *c, const char *name, char *why, size_t cap) {
    span p = protocol_of(c, name);
    if (p.n == 0) {
        snprintf(why, cap, "listener %s has no security protocol: add %s:PLAINTEXT to listener.security.protocol.map", name, name);
        return ERR_BAD_SETTING;
    }
    if (p.n == 9 && strncasecmp((const char *)p.p, "PLAINTEXT", 9) == 0) {
        return ERR_OK;
    }
    char shown[40];
    snprintf(why, cap, "listener %s asks for %s, which this version does not serve: only PLAINTEXT is", name, span_printable(p, shown, sizeof shown));
    return ERR_BAD_SETTING;
}

static bool same_port(const struct conf_listener *a, const struct conf_listener *b) {
    return a->port != 0 && a->port == b->port && (a->host[0] == '\0' || b->host[0] == '\0' || strcasecmp(a->host, b->host) == 0);
}

static err listen_on(const struct conf *c, const struct conf_listener *l, struct conf_doors *doors, char *why, size_t cap) {
    err e = check_protocol(c, l->name, why, cap);
    if (e != ERR_OK) {
        return e;
    }
    for (size_t i = 0; i < doors->n; i++) {
        if (same_port(&doors->v[i].listen, l)) {
            snprintf(why, cap, "listeners %s and %s want the same port %u: give one of them another", doors->v[i].listen.name, l->name, l->port);
            return ERR_BAD_SETTING;
        }
    }
    doors->v[doors->n++] = (struct conf_endpoint){.listen = *l};
    return ERR_OK;
}

static err listen_all(const struct conf *c, struct conf_doors *doors, char *why, size_t cap) {
    struct conf_listener list[CONF_LISTENERS_MAX];
    size_t n = 0;
    const char *text = conf_str(c, "listeners");
    err e = text == NULL ? ERR_OK : conf_parse_listeners(span_str(text), list, &n, why, cap);
    for (size_t i = 0; e == ERR_OK && i < n; i++) {
        if (is_controller(c, list[i].name)) {
            doors->skipped++;
        } else {
            e = listen_on(c, &list[i], doors, why, cap);
        }
    }
    return e;
}

/* BR-040: an address that means "any" here is none that a client could dial. */
static bool is_wildcard(const char *host) {
    size_t zeros = strspn(host, ":0.");
    return host[0] == '\0' || host[zeros] == '\0';
}

static err advertise(const struct conf_listener *a, struct conf_doors *doors, char *why, size_t cap) {
    if (is_wildcard(a->host)) {
        snprintf(why, cap, "advertised.listeners: %s://%.64s:%u is no address a client can dial: name the host clients shall use, or leave %s out",
                 a->name, a->host, a->port, a->name);
        return ERR_BAD_SETTING;
    }
    for (size_t i = 0; i < doors->n; i++) {
        if (strcmp(doors->v[i].listen.name, a->name) == 0) {
            memcpy(doors->v[i].advertised_host, a->host, sizeof a->host);
            doors->v[i].advertised_port = a->port;
            return ERR_OK;
        }
    }
    snprintf(why, cap, "advertised.listeners names %s, which listeners does not: use the same names in both", a->name);
    return ERR_BAD_SETTING;
}

err conf_endpoints(const struct conf *c, struct conf_doors *ret, char *ret_why, size_t cap) {
    struct conf_doors doors = {.n = 0};
    struct conf_listener list[CONF_LISTENERS_MAX];
    size_t told = 0;
    err e = listen_all(c, &doors, ret_why, cap);
    const char *text = conf_str(c, "advertised.listeners");
    if (e == ERR_OK && text != NULL) {
        e = conf_parse_listeners(span_str(text), list, &told, ret_why, cap);
    }
    for (size_t i = 0; e == ERR_OK && i < told; i++) {
        if (!is_controller(c, list[i].name)) {
            e = advertise(&list[i], &doors, ret_why, cap);
        }
    }
    if (e == ERR_OK) {
        *ret = doors;
    }
    return e;
}
