/* Proves R19.8: the key of a window of type 1 is ended by LOCAL_INV. */
#include "common.h"

int main(void)
{
    static char memory[64], mine[16] = "from the peer";
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2], other[2];

    open_device();
    make_pair(&want, pair);
    make_pair(&want, other);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1);
    must(mw != NULL, "ibv_alloc_mw");
    struct ibv_mw_bind bind = {
        .send_flags = IBV_SEND_SIGNALED,
        .bind_info = { mr, (uintptr_t)memory, sizeof memory, IBV_ACCESS_REMOTE_WRITE },
    };
    must(!ibv_bind_mw(pair[0].qp, mw, &bind), "ibv_bind_mw");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    int posted = post_send(&pair[0], (struct ibv_send_wr){
        .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey });
    const char *ended = ibv_wc_status_str(next(&pair[0]).status);
    const char *state_now = state_at_last(&pair[0]);
    /* The key belongs to the domain: through another queue pair it still gives access to the memory. */
    const char *written = write_by(&other[1], from, sizeof mine, memory, mw->rkey);
    say("R19.8: %s: post returned %d; then \"%s\", queue pair %s; a peer's WRITE to another queue "
        "pair \"%s\", and the memory reads \"%s\"",
        memory[0] ? "corruption" : "refused late", posted, ended,
        state_now, written, memory);
    return 0;
}
