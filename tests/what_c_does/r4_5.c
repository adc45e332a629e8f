/* Proves R4.5: an atomic whose result goes to memory that was registered for reading only. */
#include "common.h"

int main(void)
{
    static uint64_t result;
    static volatile uint64_t cell = 41;
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *sink = region(&result, sizeof result, 0);
    struct ibv_mr *target = region((void *)(uintptr_t)&cell, sizeof cell,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);

    struct ibv_sge sge = sge_of(sink, sizeof result);
    struct ibv_send_wr add = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.atomic = { .remote_addr = (uintptr_t)&cell, .compare_add = 1, .rkey = target->rkey },
    };
    struct ibv_send_wr *bad;
    int posted = ibv_post_send(pair[0].qp, &add, &bad);
    struct ibv_wc wc = next(&pair[0]);
    int wrong = wc.status != IBV_WC_SUCCESS && cell == 42;
    say("R4.5: %s: post returned %d; then \"%s\", but the peer's cell went from 41 to %d, "
        "queue pair %s", wrong ? "wrong completion" : "no harm", posted,
        ibv_wc_status_str(wc.status), (int)cell, state_at_last(&pair[0]));
    return 0;
}
