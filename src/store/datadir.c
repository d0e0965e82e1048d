/* The data directory as a whole: is it ours, is it free, and what did the last run leave.
 *
 * Happy path: take Kafka's .lock, look at the names, read perigee.meta/format and meta.properties, then every
 * perigee.meta/marks.<shard>; of several marks of one partition the one with the highest (generation, sequence)
 * wins, so that `shards` may change between starts. The last run was clean when each marks file of its generation
 * ends with a CLEAN block. A new directory is made in an order that a crash can interrupt anywhere: perigee.meta,
 * then format, then meta.properties.
 * Failure modes: LOCKED; FOREIGN: no perigee.meta but other files, or another node's id; NEWER format; DAMAGED: a
 * file of ours is there and wrong, or missing although others say that it existed. Nothing is deleted or changed on
 * any of these.
 * Runs on: boot and offline tools; afterwards read-only, any shard. */
#include "store/datadir.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "call.h"
#include "datadir_in.h"
#include "marks_file.h"
#include "names.h"

#define SWEEP_DIRS 64              /* removed before the start: some, since a full disk may need their space; the others after it */
#define MARKS_FILE_BYTES_MAX ((size_t)1 << 30)
#define SMALL_FILE_BYTES_MAX (64 << 10)
#define FORMAT_PATH NAMES_META_DIR "/format"
#define PROPERTIES_PATH "meta.properties"
#define FORMAT_TEXT "perigee data directory, format "

struct mark_entry {
    struct map_node node;
    struct datadir_mark mark;
    uint64_t generation, sequence;
    int32_t shard;
    bool gone;
};

struct datadir {
    struct disk *disk;
    uuid cluster_id;
    struct map marks;
    struct disk_entry *names;      /* of the root, sorted */
    size_t names_n;
    bool clean;
    uint64_t generation;           /* highest seen */
    bool has_state;                /* a metadata log or marks exist: this is no new directory */
    bool settled; /* nothing that is seen can be lost to a power cut: the last run said so, or this one made it */
    char *why;                     /* during datadir_open */
    size_t why_cap;
};

static err say(struct datadir *dd, err e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static err say(struct datadir *dd, err e, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(dd->why, dd->why_cap, fmt, ap);
    va_end(ap);
    return e;
}

/* ---- the root's names ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct disk_entry *)a)->name, ((const struct disk_entry *)b)->name);
}

static const struct disk_entry *root_entry(const struct datadir *dd, const char *name) {
    struct disk_entry key = {.name = (char *)(uintptr_t)name};
    return dd->names_n == 0 ? NULL : bsearch(&key, dd->names, dd->names_n, sizeof key, by_name);
}

bool datadir_has_dir(const struct datadir *dd, const char *name) {
    const struct disk_entry *en = root_entry(dd, name);
    return en && en->is_dir;
}

static err list_root(struct datadir *dd) {
    err e = call_list(dd->disk, "", &dd->names, &dd->names_n);
    if (e != ERR_OK) {
        return say(dd, e, "cannot list the data directory: %s", err_text(e));
    }
    if (dd->names_n > 0) {
        qsort(dd->names, dd->names_n, sizeof *dd->names, by_name);
    }
    return ERR_OK;
}

/* A directory without perigee.meta must be empty. */
static err check_strangers(struct datadir *dd) {
    for (size_t i = 0; i < dd->names_n; i++) {
        const char *name = dd->names[i].name;
        if (strcmp(name, ".lock") == 0 || strcmp(name, "lost+found") == 0) {
            continue;
        }
        if (root_entry(dd, PROPERTIES_PATH)) {
            return say(
                dd, ERR_FOREIGN,
                "this is a data directory of Apache Kafka (it has meta.properties and no %s); perigee cannot import one yet. "
                "Choose another directory",
                NAMES_META_DIR);
        }
        return say(dd, ERR_FOREIGN,
                   "the directory is not empty and not perigee's (it has '%s' and no %s). Choose another directory",
                   name, NAMES_META_DIR);
    }
    return ERR_OK;
}

/* ---- format and meta.properties ---- */

static err read_small(struct datadir *dd, const char *path, span *ret) {
    void *buf;
    size_t n;
    err e = disk_read_all(dd->disk, path, SMALL_FILE_BYTES_MAX, &buf, &n);
    if (e == ERR_OK) {
        *ret = span_of(buf, n);
    }
    return e;
}

static void free_small(span s) {
    mem_free((void *)(uintptr_t)s.p);
}

static err replace(struct datadir *dd, const char *path, const char *text) {
    err e = disk_replace_all(dd->disk, path, text, strlen(text));
    return e == ERR_OK ? e : say(dd, e, "cannot write %s: %s", path, err_text(e));
}

static err make_format(struct datadir *dd) {
    char text[64];
    err e = call_path(dd->disk, DISK_MKDIR, NAMES_META_DIR, NULL);
    e = e == ERR_OK ? call_sync(dd->disk, NULL, "") : e;
    if (e != ERR_OK) {
        return say(dd, e, "cannot create %s: %s", NAMES_META_DIR, err_text(e));
    }
    (void)snprintf(text, sizeof text, FORMAT_TEXT "%d\n", DATADIR_FORMAT);
    return replace(dd, FORMAT_PATH, text);
}

static err check_format(struct datadir *dd) {
    span s;
    err e = read_small(dd, FORMAT_PATH, &s);
    if (e == ERR_NOT_FOUND && !dd->has_state) {
        return make_format(dd);
    }
    if (e != ERR_OK) {
        return say(dd, e == ERR_NOT_FOUND ? ERR_DAMAGED : e, "%s: %s", FORMAT_PATH, err_text(e));
    }
    int version = 0, used = 0;
    bool ok = sscanf((const char *)s.p, FORMAT_TEXT "%9d\n%n", &version, &used) == 1 && (size_t)used == s.n &&
              s.p[s.n - 1] == '\n';
    free_small(s);
    if (!ok) {
        return say(dd, ERR_DAMAGED, "%s is damaged: it does not say which format this directory has", FORMAT_PATH);
    }
    if (version > DATADIR_FORMAT) {
        return say(dd, ERR_NEWER, "the directory has format %d, written by a newer perigee; this one knows %d", version,
                   DATADIR_FORMAT);
    }
    return version == DATADIR_FORMAT ? ERR_OK
                                     : say(dd, ERR_DAMAGED, "%s names an impossible format %d", FORMAT_PATH, version);
}

/* Value of `key` in "key=value" lines; the last line must be complete. */
static bool property(span text, const char *key, char *ret, size_t cap) {
    const char *p = (const char *)text.p;
    size_t n = strlen(key);
    for (const char *eol; (eol = strchr(p, '\n')); p = eol + 1) {
        if (strncmp(p, key, n) == 0 && p[n] == '=' && (size_t)(eol - p) - n - 1 < cap) {
            memcpy(ret, p + n + 1, (size_t)(eol - p) - n - 1);
            ret[(size_t)(eol - p) - n - 1] = 0;
            return true;
        }
    }
    return false;
}

static err make_properties(struct datadir *dd, int32_t node_id, uuid cluster_id) {
    char id[UUID_TEXT_CAP], text[128];
    uuid_text(cluster_id, id);
    (void)snprintf(text, sizeof text, "version=1\ncluster.id=%s\nnode.id=%d\n", id, node_id);
    dd->cluster_id = cluster_id;
    return replace(dd, PROPERTIES_PATH, text);
}

static err check_properties(struct datadir *dd, int32_t node_id, uuid fresh) {
    span s;
    err e = read_small(dd, PROPERTIES_PATH, &s);
    if (e == ERR_NOT_FOUND && !dd->has_state) {
        return make_properties(dd, node_id, fresh);
    }
    if (e != ERR_OK) {
        return say(dd, e == ERR_NOT_FOUND ? ERR_DAMAGED : e, "%s: %s", PROPERTIES_PATH, err_text(e));
    }
    char id[64], node[16];
    bool ok = strlen((const char *)s.p) == s.n && property(s, "cluster.id", id, sizeof id) &&
              property(s, "node.id", node, sizeof node) && uuid_parse(span_str(id), &dd->cluster_id) == ERR_OK;
    free_small(s);
    if (!ok) {
        return say(dd, ERR_DAMAGED, "%s is damaged: cluster.id or node.id is missing or malformed", PROPERTIES_PATH);
    }
    if (strtol(node, NULL, 10) != node_id) {
        return say(dd, ERR_FOREIGN, "the directory belongs to node %s (meta.properties), this node is %d", node,
                   node_id);
    }
    return ERR_OK;
}

/* ---- durable marks ---- */

struct mark_key {
    uuid topic_id;
    int32_t partition;
};

static bool mark_eq(const struct map_node *node, const void *key) {
    const struct datadir_mark *m = &list_entry(node, struct mark_entry, node)->mark;
    const struct mark_key *k = key;
    return m->partition == k->partition && uuid_eq(m->topic_id, k->topic_id);
}

static struct mark_entry *mark_at(const struct datadir *dd, const struct mark_key *k, uint64_t *ret_hash) {
    uint8_t bytes[20];
    memcpy(bytes, k->topic_id.b, 16);
    memcpy(bytes + 16, &k->partition, 4);
    *ret_hash = map_hash(&dd->marks, span_of(bytes, sizeof bytes));
    struct map_node *node = map_find(&dd->marks, *ret_hash, mark_eq, k);
    return node ? list_entry(node, struct mark_entry, node) : NULL;
}

struct reading {
    struct datadir *dd;
    int32_t shard;
    bool any, clean;
    uint64_t generation;
};

static err take_mark(struct reading *rd, const struct frames_head *h, const struct datadir_mark *m, bool gone) {
    uint64_t hash;
    struct mark_key key = {.topic_id = m->topic_id, .partition = m->partition};
    struct mark_entry *en = mark_at(rd->dd, &key, &hash);
    if (en && (en->generation > h->generation || (en->generation == h->generation && en->sequence > h->sequence))) {
        return ERR_OK;
    }
    if (!en) {
        en = mem_zalloc(MEM_META, sizeof *en);
        if (!en) {
            return ERR_NOMEM;
        }
        en->mark = *m;
        err e = map_insert(&rd->dd->marks, &en->node, hash);
        if (e != ERR_OK) {
            mem_free(en);
            return e;
        }
    }
    en->mark = *m;
    en->generation = h->generation;
    en->sequence = h->sequence;
    en->shard = rd->shard;
    en->gone = gone;
    return ERR_OK;
}

static err on_marks_frame(void *u, const struct frames_head *h, span payload) {
    struct reading *rd = u;
    if (h->kind < MARKS_OPEN || h->kind > MARKS_CLEAN || payload.n % MARKS_ENTRY_BYTES != 0) {
        return ERR_DAMAGED;
    }
    rd->any = true;
    rd->generation = h->generation > rd->generation ? h->generation : rd->generation;      /* ours must be higher than any that counts */
    rd->clean = h->kind == MARKS_CLEAN;
    for (size_t at = 0; at < payload.n; at += MARKS_ENTRY_BYTES) {
        struct datadir_mark m;
        bool gone;
        err e = marks_file_get(payload.p + at, &m, &gone);
        e = e == ERR_OK ? take_mark(rd, h, &m, gone) : e;
        if (e != ERR_OK) {
            return e;
        }
    }
    return ERR_OK;
}

static err read_marks_file(struct datadir *dd, struct reading *rd, const char *path) {
    void *buf;
    size_t n, good = 0;
    err e = call_read_all(dd->disk, path, MARKS_FILE_BYTES_MAX, &buf, &n);
    if (e != ERR_OK) {
        return say(dd, e, "cannot read %s: %s", path, err_text(e));
    }
    e = frames_walk(span_of(buf, n), on_marks_frame, rd, &good);
    mem_free(buf);
    if (e == ERR_TORN) {
        rd->clean = false;         /* no sync had returned for what is torn: nothing relies on it */
        return ERR_OK;
    }
    return e == ERR_OK ? e : say(dd, e, "%s: %s at byte %zu", path, err_text(e), good);
}

static bool is_marks_name(const char *name, int32_t *ret_shard) {
    int used = 0, shard = 0;
    if (sscanf(name, "marks.%9d%n", &shard, &used) != 1 || name[used] != 0 || shard < 0) {
        return false;
    }
    *ret_shard = shard;
    return true;
}

/* Files are read newest generation last or first, it does not matter: (generation, sequence) decides. */
static err read_marks(struct datadir *dd, const struct disk_entry *names, size_t names_n) {
    uint64_t clean_generation = 0, open_generation = 0;
    bool any = false;
    for (size_t i = 0; i < names_n; i++) {
        char path[80];
        struct reading rd = {.dd = dd};
        if (!is_marks_name(names[i].name, &rd.shard)) {
            continue;
        }
        (void)snprintf(path, sizeof path, NAMES_META_DIR "/%s", names[i].name);
        err e = read_marks_file(dd, &rd, path);
        if (e != ERR_OK) {
            return e;
        }
        any = true;
        uint64_t *seen = rd.clean && rd.any ? &clean_generation : &open_generation;
        uint64_t generation = rd.any ? rd.generation : UINT64_MAX - 1;     /* nothing readable in it: never clean */
        *seen = generation > *seen ? generation : *seen;
        dd->generation = rd.generation > dd->generation ? rd.generation : dd->generation;
    }
    dd->clean = any ? clean_generation > open_generation : !dd->has_state;
    dd->settled = dd->settled || (any && dd->clean);
    return ERR_OK;
}

/* Files of shards that are gone: once every mark in them was written again elsewhere they say nothing. */
static void remove_stale_marks(struct datadir *dd, const struct disk_entry *names, size_t names_n) {
    bool used[LIMIT_SHARDS] = {false};
    for (const struct map_node *it = NULL; (it = map_next(&dd->marks, (struct map_node *)(uintptr_t)it));) {
        const struct mark_entry *en = list_entry(it, struct mark_entry, node);
        if (en->shard < LIMIT_SHARDS) {
            used[en->shard] = used[en->shard] || !en->gone || en->generation == dd->generation;
        }
    }
    for (size_t i = 0; i < names_n; i++) {
        char path[80];
        struct reading rd = {.dd = dd};
        if (!is_marks_name(names[i].name, &rd.shard) || rd.shard >= LIMIT_SHARDS || rd.shard == 0 || used[rd.shard]) {
            continue;
        }
        (void)snprintf(path, sizeof path, NAMES_META_DIR "/%s", names[i].name);
        if (read_marks_file(dd, &rd, path) == ERR_OK && rd.any && rd.generation < dd->generation) {
            (void)call_path(dd->disk, DISK_UNLINK, path, NULL);     /* the next start would do it again */
        }
    }
}

static void drop_gone(struct datadir *dd) {
    for (struct map_node *it = map_next(&dd->marks, NULL), *next; it; it = next) {
        struct mark_entry *en = list_entry(it, struct mark_entry, node);
        next = map_next(&dd->marks, it);
        if (en->gone) {
            map_remove(&dd->marks, it);
            mem_free(en);
        }
    }
}

/* ---- the whole ---- */

static err look_into_meta(struct datadir *dd, int32_t node_id, uuid fresh) {
    struct disk_entry *names = NULL;
    size_t names_n = 0;
    err e = call_list(dd->disk, NAMES_META_DIR, &names, &names_n);
    if (e != ERR_OK && e != ERR_NOT_FOUND) {
        return say(dd, e, "cannot list %s: %s", NAMES_META_DIR, err_text(e));
    }
    for (size_t i = 0; i < names_n; i++) {
        int32_t shard;
        dd->has_state = dd->has_state || strcmp(names[i].name, "metadata.log") == 0 ||
                        strcmp(names[i].name, "metadata.snapshot") == 0 || is_marks_name(names[i].name, &shard);
    }
    e = check_format(dd);
    e = e == ERR_OK ? check_properties(dd, node_id, fresh) : e;
    e = e == ERR_OK ? read_marks(dd, names, names_n) : e;
    if (e == ERR_OK) {
        remove_stale_marks(dd, names, names_n);
        drop_gone(dd);
    }
    disk_entries_free(names, names_n);
    return e;
}

static err open_it(struct datadir *dd, int32_t node_id, uuid fresh) {
    err e = call_path(dd->disk, DISK_LOCK, ".lock", NULL);
    if (e != ERR_OK) {
        return e == ERR_LOCKED
                   ? say(dd, e,
                         "it is in use by another process, which holds its .lock: stop that one, or name another directory")
                   : say(dd, e, "its .lock cannot be taken: %s", err_text(e));
    }
    e = list_root(dd);
    if (e == ERR_OK && !datadir_has_dir(dd, NAMES_META_DIR)) {
        e = check_strangers(dd);
        dd->settled = true;
    }
    return e == ERR_OK ? look_into_meta(dd, node_id, fresh) : e;
}

err datadir_open(struct disk *disk, int32_t node_id, uuid fresh_cluster_id, struct datadir **ret_dd,
                 struct why ret_why) {
    struct datadir *dd = mem_zalloc(MEM_META, sizeof *dd);
    if (!dd) {
        return ERR_NOMEM;
    }
    dd->disk = disk;
    dd->why = ret_why.text;
    dd->why_cap = ret_why.cap;
    map_init(&dd->marks, 0x706572696765u);         /* topic ids come from us, not from clients */
    err e = open_it(dd, node_id, fresh_cluster_id);
    dd->why = NULL;
    if (e != ERR_OK) {
        datadir_free(dd);
        return e;
    }
    *ret_dd = dd;
    return ERR_OK;
}

void datadir_free(struct datadir *dd) {
    if (!dd) {
        return;
    }
    for (struct map_node *it = map_next(&dd->marks, NULL), *next; it; it = next) {
        next = map_next(&dd->marks, it);
        map_remove(&dd->marks, it);
        mem_free(list_entry(it, struct mark_entry, node));
    }
    map_done(&dd->marks);
    disk_entries_free(dd->names, dd->names_n);
    mem_free(dd);
}

uuid datadir_cluster_id(const struct datadir *dd) {
    return dd->cluster_id;
}

bool datadir_is_clean(const struct datadir *dd) {
    return dd->clean;
}

uint64_t datadir_generation(const struct datadir *dd) {
    return dd->generation + 1;
}

const struct datadir_mark *datadir_mark_find(const struct datadir *dd, uuid topic_id, int32_t partition) {
    uint64_t hash;
    struct mark_key key = {.topic_id = topic_id, .partition = partition};
    const struct mark_entry *en = mark_at(dd, &key, &hash);
    return en ? &en->mark : NULL;
}

const struct datadir_mark *datadir_mark_next(const struct datadir *dd, const struct datadir_mark *after) {
    struct map_node *node = after ? &((struct mark_entry *)(uintptr_t)list_entry(after, struct mark_entry, mark))->node
                                  : NULL;
    node = map_next(&dd->marks, node);
    return node ? &list_entry(node, struct mark_entry, node)->mark : NULL;
}

int32_t datadir_mark_shard(const struct datadir *dd, const struct datadir_mark *m) {
    uint64_t hash;
    struct mark_key key = {.topic_id = m->topic_id, .partition = m->partition};
    const struct mark_entry *en = mark_at(dd, &key, &hash);
    return en && &en->mark == m ? en->shard : -1;
}

err datadir_settle(struct datadir *dd) {
    return dd->settled ? ERR_OK : call_path(dd->disk, DISK_SYNCFS, NULL, NULL);
}

err datadir_strays(struct datadir *dd, bool (*known)(void *u, const char *dir_name), void *u,
                   void (*on)(void *u, const char *dir_name)) {
    for (size_t i = 0; i < dd->names_n; i++) {
        const struct disk_entry *en = &dd->names[i];
        size_t topic_n;
        int32_t partition;
        bool partition_like = en->is_dir &&
                              (names_split_dir(en->name, &topic_n, &partition) || names_ends_with(en->name, "-stray"));
        if (partition_like && !known(u, en->name)) {
            on(u, en->name);
        }
    }
    return ERR_OK;
}

/* Whose directory is it? False: nobody says, or it cannot be read now: kept and reported as a stray. */
static bool read_owner(struct datadir *dd, const char *dir, uuid *ret_id) {
    char path[NAMES_PATH_CAP];
    static const char tag[] = "topic_id: ";
    void *buf;
    size_t n;
    (void)snprintf(path, sizeof path, "%s/partition.metadata", dir);
    err e = disk_read_all(dd->disk, path, SMALL_FILE_BYTES_MAX, &buf, &n);
    if (e != ERR_OK) {
        if (e != ERR_NOT_FOUND) {
            log_warn("datadir.unreadable", "path='%s' why='%s' effect='kept, although its topic may be deleted'", path,
                     err_text(e));
        }
        return false;
    }
    const char *at = memmem(buf, n, tag, sizeof tag - 1);
    const char *id = at ? at + sizeof tag - 1 : NULL;
    bool known = id && (size_t)((const char *)buf + n - id) >= UUID_TEXT_CAP - 1 &&
                 uuid_parse(span_of(id, UUID_TEXT_CAP - 1), ret_id) == ERR_OK;
    mem_free(buf);
    return known;
}

/* Renamed first, so that a crash in the middle is finished by datadir_sweep. */
static err bury(struct datadir *dd, struct disk_entry *en, const struct plog_id *id) {
    char aside[NAMES_DIR_CAP];
    names_aside(id, "-delete", aside);
    log_info("datadir.deleted", "dir='%s' its topic was deleted before the last stop", en->name);
    char *name = mem_strdup(MEM_LOG, aside);
    err e = name == NULL ? ERR_NOMEM : call_path(dd->disk, DISK_RENAME, en->name, aside);
    if (e != ERR_OK) {
        mem_free(name);
        return e;
    }
    mem_free(en->name);
    en->name = name;
    return ERR_OK;
}

err datadir_bury(struct datadir *dd, bool (*named)(void *u, span topic),
                 bool (*gone)(void *u, span topic, uuid topic_id), void *u) {
    err e = ERR_OK;
    bool any = false;
    for (size_t i = 0; i < dd->names_n && e == ERR_OK; i++) {
        struct disk_entry *en = &dd->names[i];
        char topic[NAMES_DIR_CAP];
        struct plog_id id = {.topic = topic};
        size_t n;
        if (!en->is_dir || !names_split_dir(en->name, &n, &id.partition) || n >= sizeof topic ||
            !named(u, span_of(en->name, n))) {
            continue;
        }
        memcpy(topic, en->name, n);
        topic[n] = 0;
        if (read_owner(dd, en->name, &id.topic_id) && gone(u, span_of(topic, n), id.topic_id)) {
            e = bury(dd, en, &id);
            any = true;
        }
    }
    if (any) {
        qsort(dd->names, dd->names_n, sizeof *dd->names, by_name);     /* new names have new places */
    }
    e = e == ERR_OK && any ? call_sync(dd->disk, NULL, "") : e;
    return e == ERR_OK && any ? datadir_sweep(dd) : e;
}

static bool is_doomed(const struct disk_entry *en) { return en->is_dir && names_ends_with(en->name, "-delete"); }

err datadir_sweep(struct datadir *dd) {
    for (size_t i = 0, n = 0; i < dd->names_n && n < SWEEP_DIRS; i++) {
        if (is_doomed(&dd->names[i])) {
            err e = call_path(dd->disk, DISK_RMTREE, dd->names[i].name, NULL);
            if (e != ERR_OK && e != ERR_NOT_FOUND) {
                return e;
            }
            dd->names[i].is_dir = false;           /* nor anything else any more */
            n++;
        }
    }
    return ERR_OK;
}

void datadir_doomed(const struct datadir *dd, void (*on)(void *u, const char *dir_name), void *u) {
    for (size_t i = 0; i < dd->names_n; i++) {
        if (is_doomed(&dd->names[i])) {
            on(u, dd->names[i].name);
        }
    }
}
