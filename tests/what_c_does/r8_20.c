/* Proves R8.20: a send posted before RTS; its error is taken at its word and the buffer is used again. */
#include "common.h"

int main(void)
{
    static char refused[32] = "the refused message", legal[32] = "the second message";
    static char got[2][32];
    struct want want = { .type = IBV_QPT_RC };

    open_device();
    struct end a = new_end(&want), b = new_end(&want);
    to_init(&a);
    to_init(&b);
    to_rtr(&a, &b);
    to_rtr(&b, &a);
    to_rts(&b, &want);
    struct ibv_mr *first = region(refused, sizeof refused, 0);
    struct ibv_mr *second = region(legal, sizeof legal, 0);
    post_recv(&b, region(got[0], sizeof got[0], IBV_ACCESS_LOCAL_WRITE), sizeof got[0]);
    post_recv(&b, region(got[1], sizeof got[1], IBV_ACCESS_LOCAL_WRITE), sizeof got[1]);

    struct ibv_sge sge = sge_of(first, sizeof refused);
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr *bad = &send;
    int posted = ibv_post_send(a.qp, &send, &bad);
    strcpy(refused, "a secret");

    to_rts(&a, &want);
    sge = sge_of(second, sizeof legal);
    must(!ibv_post_send(a.qp, &send, &bad), "ibv_post_send");
    next(&b);
    say("R8.20: %s: post returned %s; at the next post in RTS the peer received \"%s\"",
        strcmp(got[0], "a secret") ? "no corruption" : "corruption",
        posted ? strerror(posted) : "0", got[0]);
    return 0;
}
