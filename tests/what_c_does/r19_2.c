/* Proves R19.2: LOCAL_INV without a completion, taken for done when it was posted. */
#include "common.h"

#define LONG (1u << 20)

int main(void)
{
    static char memory[64], mine[16] = "from the peer", secret[16] = "a stranger's";
    static char message[LONG];
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
    struct ibv_send_wr bind = bind_of(mw, mr);
    uint32_t rkey = bind.bind_mw.rkey;
    must(!post_send(&pair[0], bind), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    /* The request before it in the queue waits for the peer's receive. */
    struct ibv_sge sge = sge_of(region(message, LONG, 0), LONG);
    must(!post_send(&pair[0], (struct ibv_send_wr){
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }), "ibv_post_send");
    int posted = post_send(&pair[0], (struct ibv_send_wr){
        .opcode = IBV_WR_LOCAL_INV, .invalidate_rkey = rkey });
    /* The key is ended, the program believes, and uses the memory for something else. */
    memcpy(memory, secret, sizeof secret);

    const char *written = write_by(&pair[1], from, sizeof mine, memory, rkey);
    say("R19.2: %s: LOCAL_INV returned %d; the peer's WRITE \"%s\", and the memory, in use for "
        "something else, reads \"%.16s\"", strcmp(memory, secret) ? "corruption" : "no corruption",
        posted, written, memory);
    return 0;
}
