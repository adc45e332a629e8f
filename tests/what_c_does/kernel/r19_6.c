/* Proves R19.6: a key that the peer's message may have ended is ended by LOCAL_INV. */
#include "../common.h"

int main(void)
{
    static char memory[64], there[8];
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");
    struct ibv_send_wr bind = bind_of(mw, mr);
    uint32_t rkey = bind.bind_mw.rkey;
    must(!post_send(&pair[0], bind), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    /* The peer is done with it, and gives it back. */
    post_recv(&pair[0], region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    must(!post_send(&pair[1], (struct ibv_send_wr){
        .opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey }),
        "ibv_post_send");
    next(&pair[1]);

    say("R19.6: the peer ended the key, and LOCAL_INV ends it again");
    must(!post_send(&pair[0], (struct ibv_send_wr){
        .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey }),
        "ibv_post_send");
    next(&pair[0]);
    const char *ended = ibv_wc_status_str(next(&pair[0]).status);
    say("R19.6: survived: \"%s\", queue pair %s", ended, state_at_last(&pair[0]));
    return 0;
}
