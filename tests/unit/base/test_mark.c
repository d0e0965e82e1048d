/* Goal: rare lines are counted by name from any thread. Method: hits from two threads, names at different addresses. */
#include "base/mark.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "run.h"

static void *hit_many(void *u) {
    (void)u;
    for (int i = 0; i < 10000; i++) {
        mark_hit("shared.line");
    }
    return NULL;
}

START_TEST(counted_on_any_thread) {
    pthread_t other;
    ck_assert_uint_eq(mark_count("shared.line"), 0);
    ck_assert_int_eq(pthread_create(&other, NULL, hit_many, NULL), 0);
    hit_many(NULL);
    pthread_join(other, NULL);
    ck_assert_uint_eq(mark_count("shared.line"), 20000);
    mark_reset();
    ck_assert_uint_eq(mark_count("shared.line"), 0);
}
END_TEST

static void gather(void *u, const char *name, uint64_t n) {
    char *text = u;
    size_t len = strlen(text);
    (void)snprintf(text + len, 200 - len, "%s=%lu ", name, (unsigned long)n);
}

START_TEST(listed_in_order_of_name) {
    char copy[] = "b.two";                         /* the same name elsewhere in memory is the same mark */
    mark_hit("c.three");
    mark_hit("b.two");
    mark_hit(copy);
    mark_hit("a.one");
    char text[200] = "";
    mark_each(gather, text);
    ck_assert_str_eq(text, "a.one=1 b.two=2 c.three=1 ");
}
END_TEST

START_TEST(many_names) {
    static char names[2000][20];
    for (int i = 0; i < 2000; i++) {
        (void)snprintf(names[i], sizeof names[i], "name.%d", i);
        for (int k = 0; k <= i % 3; k++) {
            mark_hit(names[i]);
        }
    }
    for (int i = 0; i < 2000; i++) {
        ck_assert_uint_eq(mark_count(names[i]), (uint64_t)(i % 3) + 1);
    }
    ck_assert_uint_eq(mark_count("name.2000"), 0);
}
END_TEST

int main(void) {
    return RUN("mark", counted_on_any_thread, listed_in_order_of_name, many_names);
}
