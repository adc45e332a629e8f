/* Proves R15.7: a session that is left half way, since the program found something wrong. */
#include "common.h"

/* 0, or -1 if a message is too long: the early return forgets ibv_wr_abort. */
static int post_all(struct ibv_qp_ex *qp, struct ibv_mr *mr, const uint32_t *lengths, int count)
{
    int i;

    ibv_wr_start(qp);
    for (i = 0; i < count; i++) {
        if (lengths[i] > mr->length)
            return -1;
        ibv_wr_send(qp);
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)mr->addr, lengths[i]);
    }
    return ibv_wr_complete(qp);
}

int main(void)
{
    static char message[64];
    static const uint32_t wrong[] = { 8, 65 }, right[] = { 8 };
    struct want want = { .type = IBV_QPT_RC, .ops = IBV_QP_EX_WITH_SEND };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(message, sizeof message, 0);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(pair[0].qp);
    int refused = post_all(qp, mr, wrong, 2);
    say("R15.7: the first list was refused by the program (%d); posting the second", refused);
    alarm(2); /* it spins forever */
    int posted = post_all(qp, mr, right, 1);
    say("R15.7: survived: ibv_wr_complete returned %d", posted);
    return 0;
}
