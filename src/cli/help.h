/* Help texts and manual pages, made from the tables of commands and settings. */
#pragma once

#include "cli/cli.h"

void help_program(FILE *to);
void help_group(const char *word, FILE *to);
void help_of(const struct cli_command *c, FILE *to);
int help_command(const struct cli_args *a);        /* `perigee help` */
