/* Proves R24.7: a receive that is posted behind the peer's end, and waited for. */
#include "../common.h"

int main(void)
{
    static char there[64];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_id *ids[2];
    struct rdma_cm_event *event;

    connect_ends(&depths, ids);
    struct end b = { ids[1]->qp, ids[1]->recv_cq };
    struct ibv_mr *to = rdma_reg_msgs(ids[1], there, sizeof there);
    must(to != NULL, "rdma_reg_msgs");
    struct rdma_event_channel *channel = rdma_create_event_channel();
    must(channel && !rdma_migrate_id(ids[1], channel), "rdma_migrate_id");
    must(!rdma_disconnect(ids[0]), "rdma_disconnect");
    must(!rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
    const char *said = rdma_event_str(event->event);

    struct ibv_sge sge = sge_of(to, sizeof there);
    struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
    int posted = ibv_post_recv(b.qp, &recv, &bad);
    int nothing = nothing_for(&b, 2000);
    say("R24.7: %s: behind %s ibv_post_recv returned %d, and in 2 s came %s",
        !posted && nothing ? "hang" : "no harm", said, posted,
        nothing ? "no completion" : "a completion");
    return 0;
}
