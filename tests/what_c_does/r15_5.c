/* Proves R15.5: the setter of data is forgotten. */
#include "common.h"

int main(void)
{
    static char there[64];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    post_recv(&pair[1], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    int posted = ibv_wr_complete(qp);
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    struct ibv_wc got = next(&pair[1]);
    say("R15.5: wrong message: ibv_wr_complete returned %d, send \"%s\"; the peer received \"%s\", "
        "%u bytes", posted, sent, ibv_wc_status_str(got.status), got.byte_len);
    return 0;
}
