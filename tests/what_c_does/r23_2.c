/* Proves R23.2: the peer has left, and this side acknowledges the event and waits for its receive. */
#include "common.h"

int main(void)
{
    static char there[64];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_event *event;
    struct rdma_cm_id *ids[2];
    struct ibv_wc wc;
    int i, found = 0;

    connect_ends(&depths, ids);
    struct ibv_mr *mr = rdma_reg_msgs(ids[1], there, sizeof there);
    must(mr != NULL, "rdma_reg_msgs");
    must(!rdma_post_recv(ids[1], NULL, there, sizeof there, mr), "rdma_post_recv");
    struct rdma_event_channel *channel = rdma_create_event_channel();
    must(channel && !rdma_migrate_id(ids[1], channel), "rdma_migrate_id");
    /* So that the peer does not wait for our answer. */
    struct rdma_event_channel *peers = rdma_create_event_channel();
    must(peers && !rdma_migrate_id(ids[0], peers), "rdma_migrate_id");

    must(!rdma_disconnect(ids[0]), "rdma_disconnect");
    must(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    const char *said = rdma_event_str(event->event);
    must(!rdma_ack_cm_event(event), "rdma_ack_cm_event");
    for (i = 0; i < 200 && !found; i++) {
        found = ibv_poll_cq(ids[1]->recv_cq, 1, &wc);
        usleep(10 * 1000);
    }
    struct end end = { ids[1]->qp, ids[1]->recv_cq };
    say("R23.2: %s: %s came; %d completions of the receive in 2 s behind it, queue pair %s",
        found ? "no harm" : "hang", said, found, state(&end));
    return 0;
}
