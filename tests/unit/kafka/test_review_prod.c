/* Goal: producer states expire by time that passes, not by what the wall clock says (S6.9, T21).
 * Method: a whole broker on the simulated machine, its wall clock put forward and back between a batch and its retry. */
#include "base/run.h"
#include "say.h"

#define T0 ((struct say_to){"t", 0})

static struct rig r;

START_TEST(T21_a_jump_of_the_wall_clock_expires_no_producer) {
    rig_init(&r, 11, 2);
    rig_start(&r);
    struct say *s = say_open(&r);
    ck_assert_int_eq(say_create(s, "t", 1), 0);
    struct say_batch one = {.pid = say_producer_id(s) + 1};
    say_produce(s, T0, -1, say_batch(s, &one));
    ck_assert_int_eq(say_produced(s)->base_offset, 0);
    const ms jumps[] = {90000000, -200000000, 90000000};       /* 25 hours ahead; two days back */
    for (int i = 0; i < 3; i++) {
        world_node_wall_jump(r.n, jumps[i]);
        rig_run(&r, 150000);                       /* two looks at what is to expire */
        say_produce(s, T0, -1, say_batch(s, &one));
        const struct k_produce_resp_topic_part *p = say_produced(s);
        ck_assert_int_eq(p->error_code, 0);
        ck_assert_int_eq(p->base_offset, 0);       /* S6.2: known, not appended again */
    }
    say_close(s);
    rig_run(&r, 90000000);
    s = say_open(&r);
    say_produce(s, T0, -1, say_batch(s, &one));
    ck_assert_int_eq(say_produced(s)->base_offset, 1);         /* S6.9: a day of silence, S6.6: any sequence */
    say_close(s);
    rig_stop(&r);
    rig_done(&r);
}
END_TEST

int main(void) { return RUN("review_prod", T21_a_jump_of_the_wall_clock_expires_no_producer); }
