/* Proves R9.9: more completions than the completion queue holds. */
#include "common.h"

#include <poll.h>

#define TOO_MANY 3

int main(void)
{
    static char mine[8], theirs[8];
    struct want want = { .type = IBV_QPT_RC, .cqe = 4 };
    struct end pair[2];
    struct ibv_async_event event;
    struct ibv_wc wc;
    int i, told = 0, came = 0, failed = 0;

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mr *to =
        region(theirs, sizeof theirs, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);

    struct ibv_sge sge = sge_of(from, sizeof mine);
    struct ibv_send_wr write = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { (uintptr_t)theirs, to->rkey },
    };
    struct ibv_send_wr *bad;
    int posted = pair[0].cq->cqe + TOO_MANY;
    for (i = 0; i < posted; i++)
        must(!ibv_post_send(pair[0].qp, &write, &bad), "ibv_post_send");

    /* An async event for each that was lost, for those who read them: then all have been made. */
    struct pollfd fd = { device->async_fd, POLLIN, 0 };
    while (told < TOO_MANY && poll(&fd, 1, 2000) == 1 && !ibv_get_async_event(device, &event)) {
        told += event.event_type == IBV_EVENT_CQ_ERR;
        ibv_ack_async_event(&event);
    }
    while (ibv_poll_cq(pair[0].cq, 1, &wc) == 1) {
        came++;
        failed += wc.status != IBV_WC_SUCCESS;
    }
    say("R9.9: %s: %d of %d completions came, %d of them failed, queue pair %s; "
        "%d async CQ_ERR events", came < posted ? "lost completion" : "no loss", came, posted,
        failed, state(&pair[0]), told);
    return 0;
}
