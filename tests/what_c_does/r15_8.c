/* Proves R15.8: inline data without the flag, which the manual page does not ask for. */
#include "common.h"

int main(void)
{
    static char there[64];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND, .inline_bytes = 64 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    post_recv(&pair[1], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, "a message", 10);
    int posted = ibv_wr_complete(qp);
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    say("R15.8: %s: ibv_wr_complete returned %d; then \"%s\", queue pair %s",
        strcmp(sent, "success") ? "refused late" : "no harm", posted, sent,
        state_at_last(&pair[0]));
    return 0;
}
