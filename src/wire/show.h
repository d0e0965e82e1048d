/* Words of the generated _print functions: a label, then a value, appended to a text. Private to
 * the room. */
#pragma once

#include "wire/msg.h"

void show_text(struct str *s, const char *text);
void show_i64(struct str *s, const char *label, int64_t x);
void show_f64(struct str *s, const char *label, double x);
void show_bool(struct str *s, const char *label, bool x);
void show_uuid(struct str *s, const char *label, uuid u);
void show_string(struct str *s, const char *label, span x);       /* printable part, in quotes; null without */
void show_bytes(struct str *s, const char *label, span x, const struct chain *pieces);       /* only how many */
void show_count(struct str *s, const char *label, int32_t n);     /* opens a bracket; "null" for -1 */
void show_count_end(struct str *s);
void show_unknown(struct str *s, const struct rd_unknown *u);
