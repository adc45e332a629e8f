/* Proves R19.1: a key that was revoked, of which the peer kept the number. */
#include "common.h"

int main(void)
{
    static char memory[64], mine[16] = "from the peer";
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");
    struct ibv_send_wr bind = bind_of(mw, mr);
    uint32_t rkey = bind.bind_mw.rkey;
    must(!post_send(&pair[0], bind), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");
    const char *first = write_by(&pair[1], from, sizeof mine, memory, rkey);

    must(!post_send(&pair[0], (struct ibv_send_wr){
        .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = rkey }),
        "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "LOCAL_INV");
    memset(memory, 0, sizeof memory);
    const char *second = write_by(&pair[1], from, sizeof mine, memory, rkey);
    say("R19.1: %s: a WRITE before LOCAL_INV \"%s\", one behind it \"%s\", queue pair %s, the "
        "window's %s", memory[0] ? "corruption" : "refused late", first, second,
        state_at_last(&pair[1]), state_at_last(&pair[0]));
    return 0;
}
