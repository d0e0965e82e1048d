/* Goal: the intrusive list keeps order under every operation. Method: a string is the twin. */
#include "base/list.h"

#include <string.h>

#include "run.h"

struct letter {
    struct list link;
    char c;
};

static char text[32];
static const char *read_out(const struct list *l) {
    size_t n = 0;
    list_each(it, l) {
        text[n++] = list_entry(it, struct letter, link)->c;
    }
    size_t back = n;                               /* backwards it is the same list */
    for (const struct list *it = l->prev; it != l; it = it->prev) {
        ck_assert_int_eq(text[--back], list_entry(it, struct letter, link)->c);
    }
    ck_assert_uint_eq(back, 0);
    text[n] = 0;
    return text;
}

START_TEST(order_is_kept) {
    struct list a, b;
    struct letter l[6];
    list_init(&a);
    list_init(&b);
    for (int i = 0; i < 6; i++) {
        l[i].c = (char)('a' + i);
        list_init(&l[i].link);
    }
    ck_assert(list_empty(&a));
    ck_assert_ptr_null(list_pop_front(&a));
    list_push_back(&a, &l[1].link);
    list_push_back(&a, &l[2].link);
    list_push_front(&a, &l[0].link);
    list_insert_after(&l[0].link, &l[5].link);
    ck_assert_str_eq(read_out(&a), "afbc");
    list_remove(&l[5].link);
    ck_assert(list_empty(&l[5].link));
    list_remove(&l[5].link);                       /* off a list it points to itself: harmless */
    list_push_back(&b, &l[3].link);
    list_push_back(&b, &l[4].link);
    list_splice_back(&a, &b);
    ck_assert(list_empty(&b));
    list_splice_back(&a, &b);
    ck_assert_str_eq(read_out(&a), "abcde");
    list_each_safe(it, &a) {
        if (list_entry(it, struct letter, link)->c % 2 == 0) {
            list_remove(it);
        }
    }
    ck_assert_str_eq(read_out(&a), "ace");
    ck_assert_ptr_eq(list_pop_front(&a), &l[0].link);
    ck_assert_str_eq(read_out(&a), "ce");
}
END_TEST

int main(void) {
    return RUN("list", order_is_kept);
}
