/* Log lines to standard error: time, level, event, key=value. One write a line. */
#pragma once

#include "base/log.h"

/* json: one object a line instead. Call once, before threads start. */
void logout_open(enum log_level least, bool json);
