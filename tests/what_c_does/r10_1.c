/* Proves R10.1: the opcode of a completion that failed. */
#include "common.h"

int main(void)
{
    static char mine[64];
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    post_recv(&pair[0], mr, sizeof mine);
    to_state(&pair[0], IBV_QPS_ERR);

    /* As many a dispatcher does: by opcode, before or without a look at the status. */
    struct ibv_wc wc = next(&pair[0]);
    const char *taken = wc.opcode & IBV_WC_RECV      ? "a receive"
                        : wc.opcode == IBV_WC_SEND   ? "a send"
                                                     : "something else";
    say("R10.1: %s: one receive was posted; its completion, \"%s\", has opcode %d, which is that "
        "of %s", wc.opcode & IBV_WC_RECV ? "right completion" : "wrong completion",
        ibv_wc_status_str(wc.status), (int)wc.opcode, taken);
    return 0;
}
