/* argv taken apart by a command's row in the table. */
#pragma once

#include "cli/cli.h"

/* Words and options of argv (without program and command names) into a, which has command, out and err. *ret_help: --help was there, nothing else
 * matters. False: wrong use, said on err. */
bool args_parse(struct cli_args *a, int argc, char **argv, bool *ret_help);
