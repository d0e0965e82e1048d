/* Goal: what recovery believes it can rely on: nothing that only the page cache holds after a failed sync (T5, T13), no checkpoint file that lags, no
 * segment that a refused roll left behind (T16). Method: a store on the simulated disk, the failure, a restart, and a power cut that shows the truth.
 * Whether the pages of a failed sync reached the platter is drawn from the seed: each test goes over several. */
#include "rig.h"

#define SEEDS 24

static void start_whole(struct rig *r) {
    ck_assert_msg(rig_start(r) == ERR_OK, "seed %llu: %s", (unsigned long long)world_seed(r->w), r->why);
    rig_check_recovered(r);
}

/* The failed batch lies in a page whose first bytes are below the durable mark: the page must go as well. */
START_TEST(T13_bytes_of_a_failed_sync_beside_proven_ones_are_not_believed) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        struct rig r;
        rig_init(&r, seed);
        struct rig_log *l = rig_log(&r, "t", 0);
        start_whole(&r);
        ck_assert_int_eq(rig_append(&r, l, 1, seed % 3 == 0 ? 5000 : 100, true), ERR_OK);
        rig_settle(&r);
        rig_run(&r, 3000);         /* the mark */
        world_node_fail_op(r.n, DISK_SYNC, 1, ERR_IO);
        ck_assert_int_eq(rig_append(&r, l, 1, 100, true), ERR_OK);
        rig_run(&r, 50);
        ck_assert(plog_is_fenced(l->lg));
        rig_crash(&r, false);      /* the page cache stays */
        start_whole(&r);
        rig_crash(&r, true);
        start_whole(&r);           /* what the start before served is still there */
        rig_done(&r);
    }
}
END_TEST

int main(void) {
    return RIG_RUN("sim_recover", T13_bytes_of_a_failed_sync_beside_proven_ones_are_not_believed);
}
