/* Every command of the program: what it is called, takes, does and answers. Parsing, help and man pages are read from here.
 * Failure modes: none; a name that is not here is NULL. Runs on: the command line. */
#include "table.h"

#include <string.h>

#include "topic.h"

#define CLI_ANY CLI_WORDS_MAX

static const struct table_option
    opt_broker = {"broker", 'b', "HOST:PORT", "The broker to ask. Default: $PERIGEE_BROKER, else 127.0.0.1:9092.", false},
    opt_output = {"output", 'o', "FORM", "table, tsv or json. Default: a table on a terminal, tsv elsewhere.", false},
    opt_timeout = {"timeout", '\0', "TIME", "How long to wait for the broker, such as 500ms or 30s. Default: 10s.", false},
    opt_file = {"config", 'c', "FILE", "Read settings from FILE, in the form of Kafka's server.properties.", false},
    opt_set = {"set", '\0', "KEY=VALUE", "A setting; above file and environment. May be repeated, the last one wins.", true},
    opt_data_dir = {"data-dir", '\0', "DIR", "The data directory; the same as --set log.dirs=DIR. Created when missing.", false},
    opt_ready = {"ready-file", '\0', "PATH", "Write addresses and process id to PATH, as JSON, once the broker serves; removed on exit.", false},
    opt_log_level = {"log-level", '\0', "LEVEL", "debug, info, warn or error. Default: info.", false},
    opt_log_json = {"log-json", '\0', NULL, "Write log lines as JSON.", false},
    opt_temp = {"temp", '\0', NULL, "Use a new data directory and delete it on exit; one that you name is kept.", false},
    opt_partitions = {"partitions", 'p', "N", "Number of partitions. Default: the broker's num.partitions.", false},
    opt_replication = {"replication-factor", '\0', "N", "Replicas of each partition. Default: the broker's.", false},
    opt_topic_config = {"config", '\0', "KEY=VALUE", "A setting of the topic, such as retention.ms=7d. May be repeated.", true},
    opt_grow = {"partitions", 'p', "N", "Grow to N partitions; keys are spread anew from then on.", false},
    opt_topic_set = {"set", '\0', "KEY=VALUE", "A setting of the topic, such as retention.ms=7d. May be repeated.", true},
    opt_topic_unset = {"unset", '\0', "KEY", "Put a setting back to its default. May be repeated.", true},
    opt_topic_settings = {"settings", '\0', NULL, "Show the settings, each with its value and origin, instead of the partitions.", false},
    opt_if_not_exists = {"if-not-exists", '\0', NULL, "A topic that exists already is fine.", false},
    opt_if_exists = {"if-exists", '\0', NULL, "A topic that does not exist is fine.", false},
    opt_yes = {"yes", 'y', NULL, "Do not ask.", false},
    opt_records = {"records", '\0', NULL, "Show the records too, not only the heads of their batches.", false},
    opt_all = {"all", '\0', NULL, "Show also settings that have no effect here.", false},
    opt_dump_output = {"output", 'o', "FORM", "table or tsv: a line per batch (the default); json: an object per line.", false},
    opt_verify_output = {"output", 'o', "FORM", "table or tsv: lines of text (the default); json: an object per finding, and one with the verdict.", false},
    opt_man = {"man", '\0', NULL, "Write the manual page for man(1).", false};

#define OPTIONS(...) (const struct table_option *const[]){__VA_ARGS__ __VA_OPT__(,) NULL}

#define EXITS_ASK "0  done\n1  wrong use\n2  the broker refused\n3  the broker cannot be reached\n4  not authorised"
#define EXITS_SERVE "0  stopped in good order\n1  it could not serve\n74 storage failed, or is damaged\n78 bad configuration or data directory"

const struct cli_command table_commands[] = {
    {"serve", "", 0, 0, "run the broker in the foreground",
     "Settings come from, each above the one before: built-in defaults, the file of -c, the environment (PERIGEE_NUM_PARTITIONS is num.partitions), --set. An "
     "unmodified server.properties of Kafka is understood.\n\n"
     "SIGTERM and SIGINT stop it in good order within seconds: acknowledged records are on disk, and the next start is instant. A second signal ends it at "
     "once: acknowledged records are safe, and the next start checks the ends of the logs.\n\n"
     "Clients connect to listeners, by default PLAINTEXT://127.0.0.1:9092. While protected.mode is on, a listener without authentication accepts only "
     "this machine's clients.",
     OPTIONS(&opt_file, &opt_data_dir, &opt_set, &opt_ready, &opt_log_level, &opt_log_json), NULL, EXITS_SERVE},
    {"dev", "", 0, 0, "run a broker to try things out",
     "Like serve, with ./perigee-data as data directory, or a throw-away one with --temp, and a banner that says what clients connect to.",
     OPTIONS(&opt_temp, &opt_data_dir, &opt_file, &opt_set, &opt_ready, &opt_log_level, &opt_log_json), NULL, EXITS_SERVE},
    {"topic create", "NAME...", 1, CLI_ANY, "create topics",
     "Prints name, id and number of partitions of each topic created.",
     OPTIONS(&opt_partitions, &opt_replication, &opt_topic_config, &opt_if_not_exists, &opt_broker, &opt_timeout, &opt_output), topic_create, EXITS_ASK},
    {"topic list", "", 0, 0, "list topics",
     "Prints name, number of partitions and id of each topic, in order of name. The broker's own topics are shown too.",
     OPTIONS(&opt_broker, &opt_timeout, &opt_output), topic_list, EXITS_ASK},
    {"topic describe", "NAME...", 1, CLI_ANY, "show a topic's partitions, or its settings",
     "Prints, for each partition: topic, id, partition, leader, leader epoch, first offset and end (the offset the next record will have).\n\n"
     "With --settings, for each setting: topic, setting, value and origin. The origin is topic (its own), broker or all brokers (changed while the broker runs), "
     "file (the broker's file, environment or --set) or default.",
     OPTIONS(&opt_topic_settings, &opt_broker, &opt_timeout, &opt_output), topic_describe, EXITS_ASK "\n5  no such topic"},
    {"topic alter", "NAME...", 1, CLI_ANY, "change topics' settings, or give them more partitions",
     "Settings act at once, and stay. Partitions cannot be taken away. Prints the name of each topic changed, and its new number of partitions when it grew.",
     OPTIONS(&opt_topic_set, &opt_topic_unset, &opt_grow, &opt_broker, &opt_timeout, &opt_output), topic_alter, EXITS_ASK "\n5  no such topic"},
    {"topic delete", "NAME...", 1, CLI_ANY, "delete topics and their records",
     "Asks first, unless --yes is given. Not on a terminal, --yes is needed.",
     OPTIONS(&opt_yes, &opt_if_exists, &opt_broker, &opt_timeout, &opt_output), topic_delete, EXITS_ASK "\n5  no such topic"},
    {"log dump", "DIR", 1, 1, "print the batches of a log, offline",
     "DIR is a data directory or the directory of one partition. Nothing is locked or changed.",
     OPTIONS(&opt_records, &opt_dump_output), NULL, "0  done\n1  DIR cannot be read"},
    {"log verify", "DIR", 1, 1, "check a log, offline",
     "DIR is a data directory or the directory of one partition. Checksums, offsets and indexes are checked; damage is named with file and position. A torn end "
     "that no acknowledged record can be part of is reported, but is no damage.",
     OPTIONS(&opt_verify_output), NULL, "0  sound\n1  damaged, or DIR cannot be read"},
    {"config check", "FILE", 1, 1, "check a file of settings",
     "Every setting that is unknown or malformed is named with its line; when there is none, a contradiction between settings is. What Kafka obeys and perigee "
     "does not is listed, but is no mistake.",
     OPTIONS(), NULL, "0  sound\n1  FILE cannot be read\n78 something is wrong with it"},
    {"config show", "", 0, 0, "show the settings in effect",
     "Prints name, value, default and origin (default, file, environment, --set) of each setting, as serve would see them with the same options.",
     OPTIONS(&opt_file, &opt_data_dir, &opt_set, &opt_all, &opt_output), NULL, "0  done\n1  the file cannot be read\n78 bad configuration"},
    {"help", "[COMMAND | settings]", 0, 2, "explain a command, or all settings",
     "help settings explains every setting of the broker and of topics.", OPTIONS(&opt_man), NULL, "0  done\n1  no such command"},
    {"version", "", 0, 0, "print the version", "", OPTIONS(), NULL, "0  done"},
};
const size_t table_commands_n = sizeof table_commands / sizeof table_commands[0];

/* How many words of argv the name has when they are the same; 0: they are not. */
static int words_matched(const char *name, int argc, char **argv) {
    int used = 0;
    while (*name != '\0') {
        size_t n = strcspn(name, " ");
        if (used == argc || strlen(argv[used]) != n || memcmp(argv[used], name, n) != 0) {
            return 0;
        }
        used++;
        name += n + (name[n] == ' ');
    }
    return used;
}

const struct cli_command *table_find(int argc, char **argv, int *ret_used) {
    for (size_t i = 0; i < table_commands_n; i++) {
        int used = words_matched(table_commands[i].name, argc, argv);
        if (used > 0) {
            *ret_used = used;
            return &table_commands[i];
        }
    }
    return NULL;
}

bool table_is_group(const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i < table_commands_n; i++) {
        if (strncmp(table_commands[i].name, word, n) == 0 && table_commands[i].name[n] == ' ') {
            return true;
        }
    }
    return false;
}

const struct table_option *table_option_named(const struct cli_command *c, span name) {
    for (const struct table_option *const *o = c->options; *o != NULL; o++) {
        if (span_eq_str(name, (*o)->name)) {
            return *o;
        }
    }
    return NULL;
}

const struct table_option *table_option_lettered(const struct cli_command *c, char letter) {
    for (const struct table_option *const *o = c->options; *o != NULL; o++) {
        if ((*o)->letter == letter) {
            return *o;
        }
    }
    return NULL;
}
