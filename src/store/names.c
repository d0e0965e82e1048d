/* Names of files and directories, as Kafka spells them (D2).
 *
 * A partition lives in "<topic>-<partition>", a segment's files are named after its base offset in twenty digits. A
 * directory on its way out is renamed to "<topic>-<partition>.<32 hex digits>-delete"; a long topic is cut there,
 * for the name has at most 255 bytes.
 * Failure modes: none; buffers have room for the longest legal topic.
 * Runs on: any. */
#include "names.h"

#include <stdio.h>
#include <string.h>

#include "base/must.h"

#define TOPIC_IN_ASIDE_MAX 190

void names_dir(const struct plog_id *id, char *ret) {
    int n = snprintf(ret, NAMES_DIR_CAP, "%s-%d", id->topic, id->partition);
    must(n > 0 && n < NAMES_DIR_CAP);
}

void names_in_dir(const struct plog_id *id, const char *file, char *ret) {
    int n = snprintf(ret, NAMES_PATH_CAP, "%s-%d/%s", id->topic, id->partition, file);
    must(n > 0 && n < NAMES_PATH_CAP);
}

void names_segment(const struct plog_id *id, off64 base, const char *suffix, char *ret) {
    int n = snprintf(ret, NAMES_PATH_CAP, "%s-%d/%020lld%s", id->topic, id->partition, (long long)base, suffix);
    must(n > 0 && n < NAMES_PATH_CAP);
}

void names_path_join(const char *dir, off64 base, const char *suffix, char *ret) {
    int n = snprintf(ret, NAMES_PATH_CAP, "%s/%020lld%s", dir, (long long)base, suffix);
    must(n > 0 && n < NAMES_PATH_CAP);
}

void names_aside(const struct plog_id *id, const char *suffix, char *ret) {
    char hex[33];
    for (size_t i = 0; i < 16; i++) {
        (void)snprintf(hex + 2 * i, 3, "%02x", id->topic_id.b[i]);
    }
    int n = snprintf(ret, NAMES_DIR_CAP, "%.*s-%d.%s%s", TOPIC_IN_ASIDE_MAX, id->topic, id->partition, hex, suffix);
    must(n > 0 && n < NAMES_DIR_CAP);
}

bool names_is_segment(const char *file, const char *suffix, off64 *ret_base) {
    off64 v = 0;
    for (size_t i = 0; i < 20; i++) {
        if (file[i] < '0' || file[i] > '9' || v > (INT64_MAX - 9) / 10) {
            return false;
        }
        v = v * 10 + (file[i] - '0');
    }
    if (strcmp(file + 20, suffix) != 0) {
        return false;
    }
    *ret_base = v;
    return true;
}

bool names_split_dir(const char *dir, size_t *ret_topic_n, int32_t *ret_partition) {
    const char *dash = strrchr(dir, '-');
    if (!dash || dash == dir || !dash[1] || strlen(dash + 1) > 9) {
        return false;
    }
    int32_t v = 0;
    for (const char *p = dash + 1; *p; p++) {
        if (*p < '0' || *p > '9') {
            return false;
        }
        v = v * 10 + (*p - '0');
    }
    *ret_topic_n = (size_t)(dash - dir);
    *ret_partition = v;
    return true;
}

bool names_ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

void names_metadata_text(const struct plog_id *id, char *ret, size_t cap) {
    char b64[UUID_TEXT_CAP];
    uuid_text(id->topic_id, b64);
    int n = snprintf(ret, cap, "version: 0\ntopic_id: %s\n", b64);
    must(n > 0 && (size_t)n < cap);
}
