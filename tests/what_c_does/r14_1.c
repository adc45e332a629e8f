/* Proves R14.1: ibv_next_poll after ibv_end_poll, to poll the remaining completions. */
#include "common.h"

int main(void)
{
    static char message[8] = "message", there[8];
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct want want = { .type = IBV_QPT_RC };
    struct ibv_poll_cq_attr none = { 0 };
    struct end pair[2];
    int i;

    open_device();
    struct ibv_cq_ex *cq = ibv_create_cq_ex(device, &attr);
    must(cq != NULL, "ibv_create_cq_ex");
    want.cq = ibv_cq_ex_to_cq(cq);
    make_pair(&want, pair);
    struct ibv_mr *from = region(message, sizeof message, 0);
    struct ibv_mr *to = region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = sge_of(from, sizeof message);
    for (i = 0; i < 3; i++)
        post_recv(&pair[1], to, sizeof there);
    struct ibv_send_wr send = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND };
    for (i = 1; i <= 3; i++) {
        send.wr_id = i;
        send.send_flags = IBV_SEND_SIGNALED;
        must(!post_send(&pair[0], send), "ibv_post_send");
    }
    usleep(200 * 1000); /* three sends and three receives are complete */

    int calls = 0;
    must(!ibv_start_poll(cq, &none), "ibv_start_poll");
    do {
        calls++;
        ibv_end_poll(cq); /* one is looked at: the lock is given back, as it should be */
    } while (!ibv_next_poll(cq));
    say("R14.1: %s: of 6 completions %d were seen; a poll finds %s",
        calls < 6 ? "lost completion" : "no loss", calls,
        nothing_for(&pair[0], 100) ? "no more" : "more");
    return 0;
}
