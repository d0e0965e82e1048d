/* What --help and man(1) say.
 * Happy path: a walk over the tables. Failure modes: an unknown command gives one line and 1. Runs on: the main thread. */
#include "help.h"

#include <string.h>

#include "state/conf.h"
#include "table.h"

#define HELP_WIDTH 96

/* text in lines of at most HELP_WIDTH columns, each begun with indent blanks; '\n' in it begins a new line. */
static void wrapped(FILE *to, const char *text, int indent) {
    while (*text != '\0') {
        size_t line = strcspn(text, "\n"), room = (size_t)(HELP_WIDTH - indent), n = line;
        if (n > room) {
            n = room;
            while (n > 0 && text[n] != ' ') {
                n--;
            }
            n = n == 0 ? line : n;                 /* one long word */
        }
        fprintf(to, "%*s%.*s\n", n == 0 ? 0 : indent, "", (int)n, text);
        text += n;
        text += *text == ' ' || *text == '\n';
    }
}

static void option_name(const struct table_option *o, char *buf, size_t cap) {
    char letter[8] = "";
    if (o->letter != '\0') {
        snprintf(letter, sizeof letter, "-%c, ", o->letter);
    }
    snprintf(buf, cap, "%s--%s%s%s", letter, o->name, o->arg == NULL ? "" : " ", o->arg == NULL ? "" : o->arg);
}

void help_program(FILE *to) {
    fputs("perigee: one log, two tongues. A message broker that speaks Kafka's protocol.\n\nUse:\n", to);
    for (size_t i = 0; i < table_commands_n; i++) {
        const struct cli_command *c = &table_commands[i];
        char left[64];
        snprintf(left, sizeof left, "perigee %s %s", c->name, c->words);
        fprintf(to, "  %-36s %s\n", left, c->summary);
    }
    fputs("\nperigee COMMAND --help tells more; perigee help settings explains every setting.\n"
          "To begin: perigee dev, and point a Kafka client to 127.0.0.1:9092.\n", to);
}

void help_group(const char *word, FILE *to) {
    fprintf(to, "Use:\n");
    size_t n = strlen(word);
    for (size_t i = 0; i < table_commands_n; i++) {
        const struct cli_command *c = &table_commands[i];
        if (strncmp(c->name, word, n) == 0 && c->name[n] == ' ') {
            char left[64];
            snprintf(left, sizeof left, "perigee %s %s", c->name, c->words);
            fprintf(to, "  %-36s %s\n", left, c->summary);
        }
    }
}

void help_of(const struct cli_command *c, FILE *to) {
    fprintf(to, "perigee %s%s%s%s: %s\n", c->name, c->words[0] == '\0' ? "" : " ", c->words, c->options[0] == NULL ? "" : " [OPTION...]", c->summary);
    if (c->about[0] != '\0') {
        fputc('\n', to);
        wrapped(to, c->about, 0);
    }
    fputs("\nOptions:\n", to);
    for (const struct table_option *const *o = c->options; *o != NULL; o++) {
        char name[64];
        option_name(*o, name, sizeof name);
        fprintf(to, "  %-28s %s\n", name, (*o)->help);
    }
    fprintf(to, "  %-28s %s\n\nExit codes:\n", "-h, --help", "Show this text.");
    wrapped(to, c->exits, 2);
}

/* ---- settings ---- */

static const char *unit_name(const struct conf_key *k) {
    switch (k->unit) {
    case CONF_BYTES:
        return "bytes";
    case CONF_MS:
        return "ms";
    case CONF_SECONDS:
        return "seconds";
    case CONF_MINUTES:
        return "minutes";
    case CONF_HOURS:
        return "hours";
    case CONF_PLAIN:
        break;
    }
    switch (k->type) {
    case CONF_BOOL:
        return "true or false";
    case CONF_INT:
    case CONF_LONG:
    case CONF_DOUBLE:
        return "number";
    case CONF_LIST:
        return "list";
    case CONF_ENUM:
        return k->choices;
    case CONF_STRING:
        break;
    }
    return "text";
}

static void setting(FILE *to, const struct conf_key *k) {
    fprintf(to, "%s  (%s%s%s%s)\n", k->name, unit_name(k), k->value == NULL ? "" : "; default ", k->value == NULL ? "" : k->value,
            (k->flags & CONF_IGNORED) != 0 ? "; no effect here" : "");
    wrapped(to, k->doc, 4);
}

static void settings(FILE *to, uint32_t where) {
    for (size_t i = 0; i < conf_keys_n; i++) {
        if ((conf_keys[i].flags & where) != 0) {
            setting(to, &conf_keys[i]);
        }
    }
}

static void help_settings(FILE *to) {
    fputs("Settings of the broker\n\n", to);
    settings(to, CONF_BROKER);
    fputs("\nSettings of a topic (perigee topic create --config KEY=VALUE)\n\n", to);
    settings(to, CONF_TOPIC);
}

/* ---- man(1) ---- */

/* roff: no line may begin with a dot or quote, and a dash is a minus. */
static void roff(FILE *to, const char *text) {
    bool start = true;
    for (; *text != '\0'; text++) {
        if (start && (*text == '.' || *text == '\'')) {
            fputs("\\&", to);
        }
        start = *text == '\n';
        if (*text == '-' || *text == '\\') {
            fputc('\\', to);
        }
        if (*text == '\n' && text[1] == '\n') {
            fputs("\n.PP", to);
            text++;
        }
        fputc(*text, to);
    }
    fputc('\n', to);
}

static void man_command(FILE *to, const struct cli_command *c) {
    fputs(".SS ", to);
    fprintf(to, "\"perigee %s %s\"\n", c->name, c->words);
    roff(to, c->summary);
    fputs(".PP\n", to);
    roff(to, c->about);
    for (const struct table_option *const *o = c->options; *o != NULL; o++) {
        char name[64];
        option_name(*o, name, sizeof name);
        fputs(".TP\n.B ", to);
        roff(to, name);
        roff(to, (*o)->help);
    }
}

static void man_program(FILE *to, const char *version) {
    fprintf(to, ".TH PERIGEE 1 \"\" \"perigee %s\"\n.SH NAME\nperigee \\- a message broker that speaks Kafka's protocol\n"
                ".SH SYNOPSIS\n.B perigee\n.I COMMAND\n[\\fIOPTION\\fR...] [\\fIARGUMENT\\fR...]\n.SH COMMANDS\n", version);
    for (size_t i = 0; i < table_commands_n; i++) {
        man_command(to, &table_commands[i]);
    }
    fputs(".SH EXIT STATUS\n.nf\n0  done\n1  the user's mistake\n2  the broker refused\n3  the broker cannot be reached\n4  not authorised\n"
          "5  not found, or empty\n74 storage failed or is damaged\n78 bad configuration\n.fi\n.SH ENVIRONMENT\n.TP\n.B PERIGEE_BROKER\n"
          "The broker that commands ask, HOST:PORT.\n.TP\n.B PERIGEE_A_B\nThe setting a.b of the broker.\n.SH SEE ALSO\n.BR perigee\\-settings (5)\n", to);
}

static void man_settings(FILE *to, const char *version) {
    fprintf(to, ".TH PERIGEE\\-SETTINGS 5 \"\" \"perigee %s\"\n.SH NAME\nperigee\\-settings \\- settings of the broker and of topics\n", version);
    static const struct { const char *title; uint32_t where; } parts[] = {{"BROKER", CONF_BROKER}, {"TOPIC", CONF_TOPIC}};
    for (size_t p = 0; p < 2; p++) {
        fprintf(to, ".SH SETTINGS OF A %s\n", parts[p].title);
        for (size_t i = 0; i < conf_keys_n; i++) {
            if ((conf_keys[i].flags & parts[p].where) == 0) {
                continue;
            }
            fputs(".TP\n.B ", to);
            roff(to, conf_keys[i].name);
            roff(to, conf_keys[i].doc);
            if (conf_keys[i].value != NULL) {
                fputs("Default: ", to);
                roff(to, conf_keys[i].value);
            }
        }
    }
    fputs(".SH SEE ALSO\n.BR perigee (1)\n", to);
}

int help_command(const struct cli_args *a) {
    bool about_settings = a->words_n == 1 && strcmp(a->words[0], "settings") == 0;
    if (cli_flag(a, "man") && (a->words_n == 0 || about_settings)) {
        about_settings ? man_settings(a->out, a->app->version) : man_program(a->out, a->app->version);
        return CLI_OK;
    }
    if (about_settings) {
        help_settings(a->out);
        return CLI_OK;
    }
    if (a->words_n == 0) {
        help_program(a->out);
        return CLI_OK;
    }
    char *words[2] = {(char *)(uintptr_t)a->words[0], (char *)(uintptr_t)a->words[1]};
    int used;
    const struct cli_command *c = table_find((int)a->words_n, words, &used);
    if (c != NULL && (size_t)used == a->words_n) {
        help_of(c, a->out);
        return CLI_OK;
    }
    if (a->words_n == 1 && table_is_group(a->words[0])) {
        help_group(a->words[0], a->out);
        return CLI_OK;
    }
    return cli_fail(a, CLI_USAGE, "no such command: %s%s%s", a->words[0], a->words_n == 2 ? " " : "", a->words_n == 2 ? a->words[1] : "");
}
