/* Proves R15.9: the inline flag, left from the work request before, and an element. */
#include "common.h"

int main(void)
{
    static char message[16] = "sixteen letters", there[64];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND, .inline_bytes = 64 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    post_recv(&pair[1], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    struct ibv_mr *mr = region(message, sizeof message, 0);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)message, sizeof message);
    int posted = ibv_wr_complete(qp);
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    const char *got = ibv_wc_status_str(next(&pair[1]).status);
    struct ibv_sge leaked;
    memcpy(&leaked, there, sizeof leaked);
    say("R15.9: %s: ibv_wr_complete returned %d, send \"%s\", receive \"%s\"; the peer received %s",
        memcmp(there, message, sizeof message) ? "leak" : "no harm", posted, sent, got,
        leaked.addr == (uintptr_t)message && leaked.lkey == mr->lkey
            ? "the message's address and lkey" : there);
    return 0;
}
