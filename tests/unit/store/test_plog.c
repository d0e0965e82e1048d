/* Goal: a log keeps what it is given, hot and cold, over rolls, restarts and crashes. Method: a simulated node with
 * one store; a twin of each log. */
#include "rig.h"

START_TEST(append_sync_read) {
    struct rig r;
    rig_init(&r, 1);
    struct rig_log *l = rig_log(&r, "t", 0);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert_int_eq(rig_append(&r, l, 3, 100, true), ERR_OK);
    rig_settle(&r);
    ck_assert_int_eq(l->acked, 3);
    rig_check(&r, l, 0, 3);
    ck_assert(rig_stop(&r));
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(!r.unclean);
    rig_check_recovered(&r);
    ck_assert_int_eq(rig_append(&r, l, 1, 20000, true), ERR_OK);
    rig_settle(&r);
    rig_crash(&r, true);
    ck_assert_int_eq(rig_start(&r), ERR_OK);
    ck_assert(r.unclean);
    rig_check_recovered(&r);
    ck_assert_int_eq(l->acked, 4);
    rig_done(&r);
}
END_TEST

int main(void) {
    return RIG_RUN("plog", append_sync_read);
}
