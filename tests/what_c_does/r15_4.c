/* Proves R15.4: an ordinary post within a session of the same queue pair. */
#include "common.h"

int main(void)
{
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    say("R15.4: ibv_post_send between ibv_wr_start and ibv_wr_complete");
    alarm(2); /* it spins forever */
    int posted = post_send(&pair[0], (struct ibv_send_wr){ .opcode = IBV_WR_SEND });
    say("R15.4: survived: it returned %d", posted);
    return 0;
}
