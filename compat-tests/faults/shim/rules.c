/* Reads and applies the rules of rules.h.
 *
 * Happy path: one stat of the control file per judged call; unchanged: the counters go on. Changed:
 * all rules anew, counters at nought.
 * Failure modes: no control file is no rules; a word that nobody knows ends the process with 99,
 * for its test would pass by mistake.
 * Runs on: whoever holds the shim's lock. */
#define _GNU_SOURCE
#include "rules.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RULES_CAP = 16, TEXT_CAP = 8192, WORD_CAP = 160 };

struct rule {
    enum kind kind;
    char match[WORD_CAP];
    int64_t skip, times, pct, at, delay_ms, free;
    uint64_t rng;
    int error;
    bool cuts, lie, flip;
    int64_t seen, struck;
};

static const char *control;
static struct timespec control_time;
static ino_t control_ino;
static struct rule rules[RULES_CAP];
static int rules_n;

static const char *const kinds[KINDS] = {"write",  "read",   "sync",      "syncfs",
                                         "open",   "create", "rename",    "truncate",
                                         "unlink", "mkdir",  "fallocate", "statvfs"};
static const struct {
    const char *name;
    int value;
} errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR},  {"EDQUOT", EDQUOT},
              {"EMFILE", EMFILE}, {"EROFS", EROFS},   {"EACCES", EACCES}};

static void unknown(const char *word) {
    (void)fprintf(stderr, "fault shim: '%s' is no rule\n", word);
    _exit(99);
}

static int error_of(const char *name) {
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        if (strcmp(errors[i].name, name) == 0) {
            return errors[i].value;
        }
    }
    unknown(name);
    return 0;
}

static enum kind kind_of(const char *name) {
    for (int i = 0; i < KINDS; i++) {
        if (strcmp(kinds[i], name) == 0) {
            return (enum kind)i;
        }
    }
    unknown(name);
    return KINDS;
}

static bool number(const char *word, const char *key, int64_t *ret) {
    size_t n = strlen(key);
    if (strncmp(word, key, n) != 0 || word[n] != '=') {
        return false;
    }
    *ret = strtoll(word + n + 1, NULL, 10);
    return true;
}

static void take_word(struct rule *r, const char *word) {
    int64_t seed;
    if (strncmp(word, "match=", 6) == 0) {
        (void)snprintf(r->match, sizeof r->match, "%s", word + 6);
    } else if (strncmp(word, "errno=", 6) == 0) {
        r->error = error_of(word + 6);
    } else if (strcmp(word, "short") == 0) {
        r->cuts = true;
    } else if (strcmp(word, "lie") == 0) {
        r->lie = true;
    } else if (strcmp(word, "flip") == 0) {
        r->flip = true;
    } else if (number(word, "seed", &seed)) {
        r->rng = (uint64_t)seed * 2 + 1;
    } else if (!number(word, "skip", &r->skip) && !number(word, "times", &r->times) &&
               !number(word, "pct", &r->pct) && !number(word, "at", &r->at) &&
               !number(word, "delay", &r->delay_ms) && !number(word, "free", &r->free)) {
        unknown(word);
    }
}

static void take_line(char *line) {
    char *rest = line, *word = strsep(&rest, " ");
    struct rule *r = &rules[rules_n];
    if (word[0] == 0 || word[0] == '#') {
        return;
    }
    if (rules_n++ == RULES_CAP) {
        unknown(line);
    }
    *r = (struct rule){
        .kind = kind_of(word), .times = 1, .pct = 100, .at = -1, .free = -1, .rng = 1};
    while ((word = strsep(&rest, " "))) {
        if (word[0] != 0) {
            take_word(r, word);
        }
    }
}

static void read_control(void) {
    char text[TEXT_CAP];
    int fd = (int)syscall(SYS_openat, AT_FDCWD, control, O_RDONLY | O_CLOEXEC, 0);
    ssize_t n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof text - 1);
    if (fd >= 0) {
        (void)syscall(SYS_close, fd);
    }
    text[n > 0 ? n : 0] = 0;
    rules_n = 0;
    for (char *rest = text, *line; (line = strsep(&rest, "\n"));) {
        take_line(line);
    }
}

static void refresh(void) {
    struct stat st;
    int e = errno;
    if (!control || stat(control, &st) != 0) {
        rules_n = 0;
        control_ino = 0;
    } else if (st.st_ino != control_ino || st.st_mtim.tv_sec != control_time.tv_sec ||
               st.st_mtim.tv_nsec != control_time.tv_nsec) {
        control_ino = st.st_ino;
        control_time = st.st_mtim;
        read_control();
    }
    errno = e;
}

void rules_open(const char *path) {
    control = path;
}

static bool matches(const struct rule *r, const char *path) {
    if (r->match[0] != '/') {
        return strstr(path, r->match) != NULL;
    }
    size_t n = strlen(path), m = strlen(r->match + 1);
    return n >= m && strcmp(path + n - m, r->match + 1) == 0;
}

/* Does the call reach the rule at all, and is it the rule's turn? */
static bool is_due(struct rule *r, int64_t at, int64_t n) {
    if (r->at >= 0 && (r->at < at || r->at >= at + n)) {
        return false;
    }
    if (r->times > 0 && r->struck >= r->times) {
        return false;
    }
    if (r->seen++ < r->skip) {
        return false;
    }
    r->rng ^= r->rng << 13;
    r->rng ^= r->rng >> 7;
    r->rng ^= r->rng << 17;
    return (int64_t)(r->rng >> 11) % 100 < r->pct;
}

static struct verdict strike(struct rule *r, int64_t at, int64_t n) {
    struct verdict v = {.rule = (int)(r - rules),
                        .error = r->error,
                        .cut = -1,
                        .delay_ms = r->delay_ms,
                        .free = r->free,
                        .lie = r->lie,
                        .flip = r->flip};
    bool before = r->at > at;
    if (before || r->cuts) {
        v.cut = before ? r->at - at : n > 1 ? n / 2 : n;
        v.error = 0;
    }
    r->struck += !before || r->cuts; /* an error waits for the write that begins at its byte */
    return v;
}

struct verdict rules_judge(enum kind kind, const char *path, int64_t at, int64_t n) {
    refresh();
    for (int i = 0; i < rules_n; i++) {
        struct rule *r = &rules[i];
        if (r->kind == kind && matches(r, path) && is_due(r, at, n)) {
            return strike(r, at, n);
        }
    }
    return (struct verdict){.rule = -1, .cut = -1, .free = -1};
}
