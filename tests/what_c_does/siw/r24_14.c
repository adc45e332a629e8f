/* Proves R24.14: a fenced RDMA READ, which is waited for. */
#include "../common.h"

int main(void)
{
    static char theirs[16] = "theirs", mine[16], ours[16] = "written", target[16];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_id *ids[2];

    connect_ends(&depths, ids);
    struct end a = { ids[0]->qp, ids[0]->send_cq };
    struct ibv_mr *from = rdma_reg_read(ids[1], theirs, sizeof theirs);
    struct ibv_mr *to = rdma_reg_write(ids[1], target, sizeof target);
    struct ibv_mr *sink = rdma_reg_write(ids[0], mine, sizeof mine);
    struct ibv_mr *out = rdma_reg_msgs(ids[0], ours, sizeof ours);
    must(from && to && sink && out, "ibv_reg_mr");
    struct ibv_sge into = sge_of(sink, sizeof mine), of = sge_of(out, sizeof ours);
    struct ibv_send_wr read = {
        .sg_list = &into, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
        .wr.rdma = { (uintptr_t)theirs, from->rkey },
    };
    struct ibv_send_wr write = {
        .next = &read, .sg_list = &of, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)target, to->rkey },
    };
    int posted = post_send(&a, write);
    const char *written = ibv_wc_status_str(next(&a).status);
    int nothing = nothing_for(&a, 2000);
    say("R24.14: %s: a WRITE and a fenced READ: post returned %d; the WRITE \"%s\"; in 2 s came %s "
        "of the READ", nothing ? "hang" : "no harm", posted, written,
        nothing ? "no completion" : "a completion");
    return 0;
}
