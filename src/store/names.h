/* Names of files and directories below the data directory, as Kafka spells them. */
#pragma once

#include "base/err.h"
#include "store/plog.h"

#define NAMES_DIR_CAP 264          /* a topic of 249 characters, '-', ten digits, NUL */
#define NAMES_PATH_CAP 320         /* a directory, '/', twenty digits, the longest suffix, NUL */
#define NAMES_META_DIR "perigee.meta"
#define NAMES_DELETED ".deleted"   /* behind the name of a file that is about to be removed, as Kafka's */

void names_dir(const struct plog_id *id, char *ret); /* "<topic>-<partition>"; NAMES_DIR_CAP bytes */
void names_in_dir(const struct plog_id *id, const char *file, char *ret); /* a fixed file in it; NAMES_PATH_CAP bytes */
void names_segment(const struct plog_id *id, off64 base, const char *suffix,
                   char *ret); /* suffix with its dot; NAMES_PATH_CAP bytes */
void names_path_join(const char *dir, off64 base, const char *suffix,
                     char *ret); /* the same below any directory; NAMES_PATH_CAP bytes */
/* "<topic>-<partition>.<hex of the topic id>-delete" (or -stray), the topic cut so that a file system takes it.
 * NAMES_DIR_CAP bytes. */
void names_aside(const struct plog_id *id, const char *suffix, char *ret);
void names_metadata_text(const struct plog_id *id, char *ret, size_t cap); /* content of partition.metadata */
/* Is `file` twenty digits and this suffix? */
bool names_is_segment(const char *file, const char *suffix, off64 *ret_base);
/* Splits "<topic>-<partition>" of a directory; false when it is no such name. topic_n is the length of the topic
 * part. */
bool names_split_dir(const char *dir, size_t *ret_topic_n, int32_t *ret_partition);
bool names_ends_with(const char *name, const char *suffix);
