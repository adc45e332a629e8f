/* Proves R7.1: ibv_post_recv on a queue pair that takes its receives from an SRQ. */
#include "common.h"

int main(void)
{
    static char mine[64];
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    want.srq = ibv_create_srq(pd, &attr);
    must(want.srq != NULL, "ibv_create_srq");
    make_pair(&want, pair);
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);

    struct ibv_sge sge = sge_of(mr, sizeof mine);
    struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad = &recv;
    int posted = ibv_post_recv(pair[0].qp, &recv, &bad);
    say("R7.1: %s: %s, bad_wr %s", posted ? "refused at post" : "no harm", strerror(posted),
        bad ? "names it" : "is NULL: clean-up that starts there crashes or does nothing");
    return 0;
}
