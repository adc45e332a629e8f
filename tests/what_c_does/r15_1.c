/* Proves R15.1: an operation that the queue pair was not created for. */
#include "common.h"

int main(void)
{
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    say("R15.1: ibv_wr_rdma_write on a queue pair that was created for SEND");
    ibv_wr_rdma_write(qp, 1, 1);
    say("R15.1: survived: ibv_wr_complete returned %d", ibv_wr_complete(qp));
    return 0;
}
