/* R19.4: a queue pair is destroyed while a window is bound through it. */
#include "common.h"

int main(void)
{
    static char memory[64];
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");
    must(!post_send(&pair[0], bind_of(mw, mr)), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    say("R19.4: destroying the queue pair of a bound window");
    int destroyed = ibv_destroy_qp(pair[0].qp);
    say("R19.4: ibv_destroy_qp returned %d; deallocating the window", destroyed);
    int deallocated = ibv_dealloc_mw(mw);
    say("R19.4: ibv_destroy_qp returned %d, ibv_dealloc_mw %d", destroyed, deallocated);
    return 0;
}
