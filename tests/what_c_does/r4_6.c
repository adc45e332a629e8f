/* Proves R4.6: an RDMA READ by a queue pair whose max_rd_atomic is 0. */
#include "common.h"

int main(void)
{
    static char mine[64], theirs[64];
    struct want want = { .type = IBV_QPT_RC, .no_reads = 1 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *sink = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *source =
        region(theirs, sizeof theirs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
    post_recv(&pair[1], source, sizeof theirs);

    struct ibv_sge sge = sge_of(sink, 8);
    struct ibv_send_wr behind = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr read = {
        .next = &behind, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { (uintptr_t)theirs, source->rkey },
    };
    struct ibv_send_wr *bad;
    int posted = ibv_post_send(pair[0].qp, &read, &bad);
    int silent = nothing_for(&pair[0], 1000) && nothing_for(&pair[1], 10);
    const char *meanwhile = state(&pair[0]);

    to_state(&pair[0], IBV_QPS_ERR);
    const char *first = ibv_wc_status_str(next(&pair[0]).status);
    const char *second = ibv_wc_status_str(next(&pair[0]).status);
    say("R4.6: %s: post returned %d; no completion in 1 s, not of the send behind it either, "
        "queue pair %s; after a move to ERR \"%s\", \"%s\"", silent ? "hang" : "no hang", posted,
        meanwhile, first, second);
    return 0;
}
