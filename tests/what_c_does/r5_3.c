/* Proves R5.3: an address handle destroyed before the completion of the send that used it. */
#include "common.h"

int main(void)
{
    static char mine[64], theirs[128];
    struct want want = { .type = IBV_QPT_UD };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *from = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *to = region(theirs, sizeof theirs, IBV_ACCESS_LOCAL_WRITE);
    post_recv(&pair[1], to, sizeof theirs);
    struct ibv_ah *gone = address(), *kept = address();

    struct ibv_sge sge = sge_of(from, 8);
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = { gone, pair[1].qp->qp_num, QKEY },
    };
    struct ibv_send_wr *bad;
    /* SQD holds the send, as a busy device would: what follows does not depend on a race. */
    to_state(&pair[0], IBV_QPS_SQD);
    int posted = ibv_post_send(pair[0].qp, &send, &bad);
    int destroyed = ibv_destroy_ah(gone);
    to_state(&pair[0], IBV_QPS_RTS);
    send.wr.ud.ah = kept;
    must(!ibv_post_send(pair[0].qp, &send, &bad), "ibv_post_send");

    struct ibv_wc first = next(&pair[0]), second = next(&pair[0]);
    say("R5.3: %s: post returned %d, ibv_destroy_ah %d; then \"%s\", a legal send behind it "
        "\"%s\", queue pair %s, the peer got %s", first.status ? "refused late" : "no harm", posted,
        destroyed, ibv_wc_status_str(first.status), ibv_wc_status_str(second.status),
        state_at_last(&pair[0]), nothing_for(&pair[1], 100) ? "nothing" : "a message");
    return 0;
}
