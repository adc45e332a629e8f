/* Proves R18.21: a shared receive queue is made smaller than what is posted to it. */
#include "../common.h"

int main(void)
{
    static char there[64], mine[16] = "a message";
    struct ibv_srq_init_attr attr = { .attr = { .max_wr = 64, .max_sge = 1 } };
    struct want want = { .type = IBV_QPT_RC };
    struct ibv_srq_attr smaller = { .max_wr = 2 };
    struct end pair[2];
    int i;

    open_device();
    want.srq = ibv_create_srq(pd, &attr);
    must(want.srq != NULL, "ibv_create_srq");
    make_pair(&want, pair);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mr *to = region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge into = sge_of(to, sizeof there), of = sge_of(from, sizeof mine);
    struct ibv_recv_wr recv = { .sg_list = &into, .num_sge = 1 }, *bad;
    for (i = 0; i < 32; i++)
        must(!ibv_post_srq_recv(want.srq, &recv, &bad), "ibv_post_srq_recv");

    int resized = ibv_modify_srq(want.srq, &smaller, IBV_SRQ_MAX_WR);
    say("R18.21: ibv_modify_srq returned %s; a message comes", resized ? strerror(resized) : "0");
    must(!post_send(&pair[0], (struct ibv_send_wr){
        .sg_list = &of, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }),
        "ibv_post_send");
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    say("R18.21: %s: ibv_modify_srq returned %s; the SEND \"%s\"",
        resized ? "refused" : "nothing seen", resized ? strerror(resized) : "0", sent);
    return 0;
}
