/* Proves R14.5: between start and end, something that was meant to help: a poll of the same queue. */
#include "common.h"

int main(void)
{
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct want want = { .type = IBV_QPT_RC };
    struct ibv_poll_cq_attr none = { 0 };
    struct ibv_wc wc;

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
    say("R14.5: ibv_poll_cq between start and end of a poll of the same queue");
    alarm(2); /* it spins forever */
    int found = ibv_poll_cq(end.cq, 1, &wc);
    say("R14.5: survived: it found %d", found);
    return 0;
}
