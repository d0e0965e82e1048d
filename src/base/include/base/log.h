/* One line per event, name first, then key=value: log_warn("seg.torn", "path='%s' at=%llu", ...). Noisy rooms only: quiet code
 * returns or sets a mark. The sink belongs to the thread's context; app sets it to stderr, the simulator to its trace.
 * Rate limit: at most LOG_BURST lines per event name and second and thread; what was left out is counted in the next line. */
#pragma once

#include "base/types.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

#define LOG_BURST 10     /* the limit until log_limit_per_second says otherwise */

typedef void log_sink(void *u, enum log_level level, const char *event, const char *text);

void log_use(log_sink *sink, void *u, enum log_level least);       /* for the calling thread */
void log_default(log_sink *sink, void *u, enum log_level least);   /* for threads that set none; call before threads start */
/* The monotonic clock behind the rate limit, process-wide; call before threads start. Without one (the default) nothing is left out. */
void log_clock(ms (*now)(void));
/* The least level of the default sink, process-wide; any thread. */
void log_level_set(enum log_level least);
enum log_level log_level_least(void);
const char *log_level_name(enum log_level level);                   /* "INFO" */
void log_limit_per_second(uint32_t lines);                          /* 0 = no limit (simulator) */
void log_line(enum log_level level, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#define log_debug(...) log_line(LOG_DEBUG, __VA_ARGS__)
#define log_info(...) log_line(LOG_INFO, __VA_ARGS__)
#define log_warn(...) log_line(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
