/* Proves R13.3: arm and sleep, without a poll in between. */
#include "common.h"

#include <poll.h>

int main(void)
{
    static char mine[64];
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    want.channel = ibv_create_comp_channel(device);
    must(want.channel != NULL, "ibv_create_comp_channel");
    make_pair(&want, pair);
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    post_recv(&pair[1], mr, 8);

    struct ibv_sge sge = sge_of(mr, 8);
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr *bad;
    /* The receiver polls, finds nothing, and before it can arm, the message comes. */
    struct ibv_wc wc;
    int before = ibv_poll_cq(pair[1].cq, 1, &wc);
    must(!ibv_post_send(pair[0].qp, &send, &bad), "ibv_post_send");
    next(&pair[0]);
    must(!ibv_req_notify_cq(pair[1].cq, 0), "ibv_req_notify_cq");

    /* ibv_get_cq_event would sleep here forever; poll on its descriptor gives up. */
    struct pollfd fd = { want.channel->fd, POLLIN, 0 };
    int slept = poll(&fd, 1, 1000) == 0;
    int there = ibv_poll_cq(pair[1].cq, 1, &wc);
    say("R13.3: %s: the poll found %d, then came a message, then arm and sleep: %s with %d "
        "completion in the queue", slept ? "hang" : "no hang", before,
        slept ? "no event in 1 s" : "an event", there);
    return 0;
}
