/* Proves R15.11: inline data in two pieces. */
#include "common.h"

int main(void)
{
    static char there[64];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND, .inline_bytes = 64 };
    struct ibv_data_buf list[2] = { { "two ", 4 }, { "pieces", 7 } };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    post_recv(&pair[1], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, 2, list);
    int posted = ibv_wr_complete(qp);
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    struct ibv_wc got = next(&pair[1]);
    say("R15.11: %s: ibv_wr_complete returned %d, send \"%s\", receive \"%s\"; of 4 + 7 bytes the "
        "peer received %u", got.byte_len == 11 ? "no harm" : "wrong message", posted, sent,
        ibv_wc_status_str(got.status), got.byte_len);
    return 0;
}
