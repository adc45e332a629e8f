/* Proves R7.14: ibv_post_recv in RESET. */
#include "common.h"

int main(void)
{
    static char mine[64];
    struct want want = { .type = IBV_QPT_RC };

    open_device();
    struct end end = new_end(&want);
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);

    struct ibv_sge sge = sge_of(mr, sizeof mine);
    struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad = &recv;
    int posted = ibv_post_recv(end.qp, &recv, &bad);
    say("R7.14: %s: %s, bad_wr %s", posted ? "refused at post" : "no harm", strerror(posted),
        bad ? "names it" : "is NULL: clean-up that starts there crashes or does nothing");
    return 0;
}
