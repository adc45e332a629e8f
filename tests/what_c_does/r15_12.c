/* Proves R15.12: a session before RTS; its error is taken at its word and the buffer is used again. */
#include "common.h"

static int send_of(struct end *end, struct ibv_mr *mr, uint32_t length)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(end->qp);

    ibv_wr_start(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)mr->addr, length);
    return ibv_wr_complete(qp);
}

int main(void)
{
    static char refused[32] = "the refused message", legal[32] = "the second message";
    static char got[2][32];
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    int i;

    open_device();
    struct end a = new_end(&want), b = new_end(&want);
    to_init(&a);
    to_init(&b);
    to_rtr(&a, &b);
    to_rtr(&b, &a);
    to_rts(&b, &want);
    struct ibv_mr *first = region(refused, sizeof refused, 0);
    struct ibv_mr *second = region(legal, sizeof legal, 0);
    for (i = 0; i < 2; i++)
        post_recv(&b, region(got[i], sizeof got[i], IBV_ACCESS_LOCAL_WRITE), sizeof got[i]);

    int posted = send_of(&a, first, sizeof refused);
    strcpy(refused, "a secret");

    to_rts(&a, &want);
    must(!send_of(&a, second, sizeof legal), "ibv_wr_complete");
    next(&b);
    say("R15.12: %s: ibv_wr_complete returned %s; at the next session in RTS the peer "
        "received \"%s\"",
        strcmp(got[0], "a secret") ? "no corruption" : "corruption",
        posted ? strerror(posted) : "0", got[0]);
    return 0;
}
