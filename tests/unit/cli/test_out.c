/* Goal: rows as table, tab-separated text and JSON; nothing in a cell breaks the form. Method: the same rows in each form, byte for byte. */
#include "cli/out.h"

#include "shell.h"

#include "table.h"

static char text[4000];

static const struct out_column columns[] = {{"name", false}, {"leader_epoch", true}, {"id", false}};

static void row(struct out *o, const char *name, const char *number, const char *id) {
    out_cell(o, name);
    out_cell(o, number);
    out_cell(o, id);
}

static int print(enum out_form form, void (*fill)(struct out *o)) {
    struct cli_args a = {.command = &table_commands[0], .out = tmpfile(), .err = stderr};
    struct out o;
    out_begin(&o, &a, form, columns, 3);
    fill(&o);
    int code = out_end(&o, &a);
    rewind(a.out);
    text[fread(text, 1, sizeof text - 1, a.out)] = '\0';
    fclose(a.out);
    return code;
}

static void two_rows(struct out *o) {
    row(o, "b\xc3\xa4r", "7", NULL);
    out_cell(o, "a-longer-name");
    out_number(o, -12345678901);
    out_cell(o, "x");
}

static void no_rows(struct out *o) { (void)o; }

static void hostile(struct out *o) { row(o, "a\tb\nc\x1b[2J\"\\\xff", "many", ""); }

START_TEST(table_form) {
    ck_assert_int_eq(print(OUT_TABLE, two_rows), CLI_OK);
    ck_assert_str_eq(text, "NAME           LEADER EPOCH  ID\n"
                           "b\xc3\xa4r                       7  -\n"
                           "a-longer-name  -12345678901  x\n");
    ck_assert_int_eq(print(OUT_TABLE, no_rows), CLI_OK);
    ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(tsv_form) {
    ck_assert_int_eq(print(OUT_TSV, two_rows), CLI_OK);
    ck_assert_str_eq(text, "b\xc3\xa4r\t7\t\na-longer-name\t-12345678901\tx\n");
    ck_assert_int_eq(print(OUT_TSV, hostile), CLI_OK);
    ck_assert_str_eq(text, "a?b?c?[2J\"\\\xff\tmany\t\n");
}
END_TEST

START_TEST(json_form) {
    ck_assert_int_eq(print(OUT_JSON, two_rows), CLI_OK);
    ck_assert_str_eq(text, "[\n{\"name\":\"b\xc3\xa4r\",\"leader_epoch\":7,\"id\":null},\n"
                           "{\"name\":\"a-longer-name\",\"leader_epoch\":-12345678901,\"id\":\"x\"}\n]\n");
    ck_assert_int_eq(print(OUT_JSON, no_rows), CLI_OK);
    ck_assert_str_eq(text, "[]\n");
    ck_assert_int_eq(print(OUT_JSON, hostile), CLI_OK);
    ck_assert_str_eq(text, "[\n{\"name\":\"a?b?c?[2J\\\"\\\\\\ufffd\",\"leader_epoch\":null,\"id\":\"\"}\n]\n");
}
END_TEST

START_TEST(json_text) {
    struct str s;
    str_init(&s, 1000);
    out_json_text(&s, SPAN_LIT("\x01\xe2\x82\xac\xe2\x82\xf0\x9f\x98\x80\xc0\x80"));
    ck_assert_str_eq(s.p, "\"\\u0001\xe2\x82\xac\\ufffd\\ufffd\xf0\x9f\x98\x80\\ufffd\\ufffd\"");
    str_done(&s);
}
END_TEST

/* An output that cannot be written is said, not swallowed. */
START_TEST(full_disk) {
    struct cli_args a = {.command = &table_commands[0], .out = fopen("/dev/full", "w"), .err = tmpfile()};
    struct out o;
    out_begin(&o, &a, OUT_TSV, columns, 3);
    two_rows(&o);
    ck_assert_int_eq(out_end(&o, &a), CLI_USAGE);
    fclose(a.out);
    fclose(a.err);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("out");
    TCase *t = tcase_create("out");
    tcase_add_test(t, table_form);
    tcase_add_test(t, tsv_form);
    tcase_add_test(t, json_form);
    tcase_add_test(t, json_text);
    tcase_add_test(t, full_disk);
    suite_add_tcase(suite, t);
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
