/* Proves R14.2: extended polling as the manual page has it: start, next until there is none, end. */
#include "common.h"

int main(void)
{
    static char message[8] = "message", there[8];
    struct ibv_cq_init_attr_ex attr = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
    struct want want = { .type = IBV_QPT_RC };
    struct ibv_poll_cq_attr none = { 0 };
    struct end pair[2];
    int i, first = 0, later = 0;

    open_device();
    struct ibv_cq_ex *cq = ibv_create_cq_ex(device, &attr);
    must(cq != NULL, "ibv_create_cq_ex");
    want.cq = ibv_cq_ex_to_cq(cq);
    make_pair(&want, pair);
    struct ibv_mr *from = region(message, sizeof message, 0);
    struct ibv_mr *to = region(there, sizeof there, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = sge_of(from, sizeof message);
    post_recv(&pair[1], to, sizeof there);
    must(!post_send(&pair[0], (struct ibv_send_wr){
        .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED }), "ibv_post_send");
    usleep(200 * 1000); /* the send and the receive are complete */

    const char *status = "";
    for (i = 0; i < 5; i++) {
        if (ibv_start_poll(cq, &none))
            continue;
        do {
            if (i == 0) {
                first++;
            } else {
                later++;
                status = ibv_wc_status_str(cq->status);
            }
        } while (!ibv_next_poll(cq) && later < 100);
        ibv_end_poll(cq);
    }
    if (later)
        say("R14.2: wrong completion: %d completions were there and came; of the next 4 polls came "
            "%d, of nothing that was posted, the last \"%s\"", first, later, status);
    else
        say("R14.2: no harm: %d completions were there and came", first);
    return 0;
}
