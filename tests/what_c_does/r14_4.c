/* Proves R14.4: a field that was not asked for when the completion queue was created. */
#include "common.h"

int main(void)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN };
    struct want want = { .type = IBV_QPT_RC };
    struct ibv_poll_cq_attr none = { 0 };

    open_device();
    struct ibv_cq_ex *cq = ibv_create_cq_ex(device, &attr);
    must(cq != NULL, "ibv_create_cq_ex");
    want.cq = ibv_cq_ex_to_cq(cq);
    struct end end = new_end(&want);
    static char there[8];
    to_init(&end);
    post_recv(&end, region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE), sizeof there);
    to_state(&end, IBV_QPS_ERR);
    usleep(200 * 1000);
    must(!ibv_start_poll(cq, &none), "ibv_start_poll");
    say("R14.4: reading the sender's number, which was not asked for");
    uint32_t number = ibv_wc_read_src_qp(cq);
    ibv_end_poll(cq);
    say("R14.4: survived: it is %u", number);
    return 0;
}
