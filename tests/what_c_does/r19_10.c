/* Proves R19.10: ibv_bind_mw before RTS; its error is taken at its word. */
#include "common.h"

int main(void)
{
    static char memory[64], mine[16] = "from the peer";
    struct want want = { .type = IBV_QPT_RC };

    open_device();
    struct end a = new_end(&want), b = new_end(&want);
    to_init(&a);
    to_init(&b);
    to_rtr(&a, &b);
    to_rtr(&b, &a);
    to_rts(&b, &want);
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
    uint32_t rkey = ibv_inc_rkey(mw->rkey);
    int bound = ibv_bind_mw(a.qp, mw, &bind);

    /* The program assumes that the window is not bound, and continues. */
    to_rts(&a, &want);
    static char there[8];
    post_recv(&b, region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    must(!post_send(&a, (struct ibv_send_wr){
        .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }), "ibv_post_send");
    next(&b);
    const char *written = write_by(&b, from, sizeof mine, memory, rkey);
    say("R19.10: %s: ibv_bind_mw returned %s; after the next post in RTS a WRITE by the window's "
        "key \"%s\", and the memory reads \"%s\"", memory[0] ? "corruption" : "no corruption",
        bound ? strerror(bound) : "0", written, memory);
    return 0;
}
