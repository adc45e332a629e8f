/* Proves R1.1: an RDMA READ on UC, which has none. */
#include "common.h"

int main(void)
{
    static char mine[64], theirs[64];
    struct want want = { .type = IBV_QPT_UC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *sink = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *source = region(theirs, sizeof theirs, IBV_ACCESS_REMOTE_READ);
    post_recv(&pair[1], sink, sizeof mine);

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

    struct ibv_wc first = next(&pair[0]), second = next(&pair[0]);
    say("R1.1: %s: post returned %d; then \"%s\", a legal send behind it \"%s\", "
        "queue pair %s", first.status ? "refused late" : "no harm", posted,
        ibv_wc_status_str(first.status), ibv_wc_status_str(second.status),
        state_at_last(&pair[0]));
    return 0;
}
