/* Proves R4.2: an atomic on a cell that is not aligned, by the path that does not look. */
#include "common.h"

int main(void)
{
    static uint64_t result, cells[2];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *sink = region(&result, sizeof result, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *target =
        region(cells, sizeof cells, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);

    ibv_wr_start(qp);
    qp->wr_id = 1;
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_fetch_add(qp, target->rkey, (uintptr_t)cells + 1, 1);
    ibv_wr_set_sge(qp, sink->lkey, (uintptr_t)&result, sizeof result);
    int posted = ibv_wr_complete(qp);

    struct ibv_wc wc = next(&pair[0]);
    say("R4.2: %s: post returned %d; then \"%s\", queue pair %s, the peer's %s",
        wc.status ? "refused late" : "no harm", posted,
        ibv_wc_status_str(wc.status), state_at_last(&pair[0]),
        state_at_last(&pair[1]));
    return 0;
}
