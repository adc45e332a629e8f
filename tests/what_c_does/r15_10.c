/* Proves R15.10: a list of elements of different lengths. */
#include "common.h"

int main(void)
{
    static char head[10], body[300], there[400];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    post_recv(&pair[1], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    struct ibv_sge list[2] = {
        sge_of(region(head, sizeof head, 0), sizeof head),
        sge_of(region(body, sizeof body, 0), sizeof body),
    };
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 2, list);
    int posted = ibv_wr_complete(qp);
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    struct ibv_wc got = next(&pair[1]);
    say("R15.10: %s: ibv_wr_complete returned %d, send \"%s\", receive \"%s\"; of 10 + 300 bytes "
        "the peer received %u", got.byte_len == 310 ? "no harm" : "wrong message", posted, sent,
        ibv_wc_status_str(got.status), got.byte_len);
    return 0;
}
