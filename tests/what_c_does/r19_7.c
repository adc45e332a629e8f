/* Proves R19.7: a WRITE by a window's key to what is beside the window. */
#include "common.h"

int main(void)
{
    static char memory[64] = "0123456789abcdef", mine[8] = "WRITTEN";
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
    bind.bind_mw.bind_info.addr += 32;
    bind.bind_mw.bind_info.length = 16;
    must(!post_send(&pair[0], bind), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    const char *written = write_by(&pair[1], from, 7, memory + 4, bind.bind_mw.rkey);
    say("R19.7: %s: the window begins at byte 32; a WRITE of 7 bytes to byte 4 by its key \"%s\", "
        "and the memory reads \"%.16s\"", memory[4] == 'W' ? "corruption" : "refused late", written,
        memory);
    return 0;
}
