/* Proves R1.2: the rdma arm of the work request's union, on a UD queue pair, which reads the ud arm. */
#include "common.h"

int main(void)
{
    static char mine[64];
    struct want want = { .type = IBV_QPT_UD };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);

    struct ibv_sge sge = sge_of(mr, 8);
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { 0x1000, 1 }, /* as RC and UC want it */
    };
    struct ibv_send_wr *bad;
    say("R1.2: posting with remote_addr 0x1000, which the library takes for a struct ibv_ah *");
    int posted = ibv_post_send(pair[0].qp, &send, &bad);
    say("R1.2: survived: post returned %d", posted);
    return 0;
}
