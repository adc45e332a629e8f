/* Proves R19.3: a key is sent to the peer by another path than its bind, and arrives first. */
#include "common.h"

#define LONG (1u << 20)

int main(void)
{
    static char memory[64], mine[16] = "from the peer", message[LONG];
    struct want want = { .type = IBV_QPT_RC, .wait_for_ever = 1 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");

    /* The request before the bind in its queue waits for the peer's receive. */
    struct ibv_sge sge = sge_of(region(message, LONG, 0), LONG);
    must(!post_send(&pair[0], (struct ibv_send_wr){
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }), "ibv_post_send");
    struct ibv_send_wr bind = bind_of(mw, mr);
    int posted = post_send(&pair[0], bind);
    const char *written = write_by(&pair[1], from, sizeof mine, memory, bind.bind_mw.rkey);
    say("R19.3: %s: the bind's post returned %d; the peer's WRITE \"%s\", its queue pair %s, and "
        "the window's %s", memory[0] ? "no harm" : "refused late", posted, written,
        state_at_last(&pair[1]), state_at_last(&pair[0]));
    return 0;
}
