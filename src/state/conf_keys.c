/* The table of settings. Rows stand in conf_keys_a_l.tbl and conf_keys_m_z.tbl, sorted by name, which test_conf checks.
 * Facts (names, types, defaults, ranges) are those of a Kafka 4.2 broker, older names that 4.x dropped included; words are ours.
 * Runs on: any. */
#include "state/conf.h"

#define INT CONF_INT
#define LONG CONF_LONG
#define BOOL CONF_BOOL
#define DOUBLE CONF_DOUBLE
#define STRING CONF_STRING
#define LIST CONF_LIST
#define ENUM CONF_ENUM
#define PLAIN CONF_PLAIN
#define BYTES CONF_BYTES
#define MS CONF_MS
#define SECONDS CONF_SECONDS
#define MINUTES CONF_MINUTES
#define HOURS CONF_HOURS
#define B CONF_BROKER
#define T CONF_TOPIC
#define X CONF_IGNORED
#define O CONF_OURS
#define S CONF_SENSITIVE
#define L CONF_LIVE
#define N CONF_LIVE_NODE
#define C CONF_CLASS
#define W CONF_SHORT
#define OLD CONF_OLD
#define G CONF_GROUP
#define M CONF_METRICS
#define KEY(name_, type_, unit_, value_, flags_, min_, max_, choices_, broker_, doc_)                \
    {.name = (name_), .value = (value_), .type = (type_), .unit = (unit_), .flags = (flags_),        \
     .min = (min_), .max = (max_), .choices = (choices_), .broker_name = (broker_), .doc = (doc_)},

const struct conf_key conf_keys[] = {
#include "conf_keys_a_l.tbl"
#include "conf_keys_m_z.tbl"
};
const size_t conf_keys_n = sizeof conf_keys / sizeof conf_keys[0];
