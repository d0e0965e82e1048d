/* What no single value shows: settings that contradict each other or ask for what is not there.
 * Failure modes: BAD_SETTING with one line: what, why, and what to do. Runs on: boot, config check. */
#include "state/conf.h"

#include <stdio.h>
#include <string.h>

static err check_roles(const struct conf *c, char *why, size_t cap) {
    span roles = span_str(conf_str(c, "process.roles")), item;
    if (roles.n == 0) {
        return ERR_OK;
    }
    bool broker = false;
    while (conf_value_next(&roles, &item)) {
        broker = broker || span_eq_str(item, "broker");
        if (!span_eq_str(item, "broker") && !span_eq_str(item, "controller")) {
            char shown[40];
            snprintf(why, cap, "process.roles: '%s' is neither broker nor controller", span_printable(item, shown, sizeof shown));
            return ERR_BAD_SETTING;
        }
    }
    if (!broker) {
        snprintf(why, cap, "process.roles: a controller alone has nothing to do here, perigee keeps its own metadata: use broker or broker,controller");
        return ERR_BAD_SETTING;
    }
    return ERR_OK;
}

static err check_dirs(const struct conf *c, char *why, size_t cap) {
    const char *dirs = conf_str(c, "log.dirs");
    if (dirs == NULL || dirs[0] == '\0') {
        snprintf(why, cap, "log.dirs is empty: name the data directory");
        return ERR_BAD_SETTING;
    }
    if (strchr(dirs, ',') != NULL) {
        snprintf(why, cap, "log.dirs names several directories, perigee keeps its data in one: leave one of them (join disks below the file system if needed)");
        return ERR_BAD_SETTING;
    }
    return ERR_OK;
}

err conf_check(const struct conf *c, char *ret_why, size_t cap) {
    struct conf_doors doors;
    err e = check_roles(c, ret_why, cap);
    e = e == ERR_OK ? check_dirs(c, ret_why, cap) : e;
    return e == ERR_OK ? conf_endpoints(c, &doors, ret_why, cap) : e;
}
