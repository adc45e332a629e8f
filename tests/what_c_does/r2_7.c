/* Proves R2.7: more inline data than the queue pair was granted. */
#include "common.h"

int main(void)
{
    static char mine[1024];
    struct want want = { .type = IBV_QPT_RC, .inline_bytes = 64 };
    struct end pair[2];
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    open_device();
    make_pair(&want, pair);
    must(!ibv_query_qp(pair[0].qp, &attr, IBV_QP_CAP, &init), "ibv_query_qp");
    uint32_t granted = init.cap.max_inline_data;

    struct ibv_sge sge = { (uintptr_t)mine, granted + 1, 0 };
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
    };
    struct ibv_send_wr *bad = NULL;
    int posted = ibv_post_send(pair[0].qp, &send, &bad);
    say("R2.7: %s: %u bytes where %u are granted: %s, bad_wr %s",
        posted ? "refused at post" : "no harm", granted + 1, granted, strerror(posted),
        bad == &send ? "names it" : bad ? "is another" : "is NULL");
    return 0;
}
