/* Proves R24.12: a success taken for the peer's word that it has the message. */
#include "../common.h"

int main(void)
{
    static char message[32] = "an order", there[32];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_id *ids[2];

    connect_ends(&depths, ids);
    struct end a = { ids[0]->qp, ids[0]->send_cq }, b = { ids[1]->qp, ids[1]->recv_cq };
    struct ibv_mr *from = rdma_reg_msgs(ids[0], message, sizeof message);
    struct ibv_mr *to = rdma_reg_msgs(ids[1], there, sizeof there);
    must(from && to, "rdma_reg_msgs");
    struct ibv_sge sge = sge_of(from, sizeof message);
    must(!post_send(&a, (struct ibv_send_wr){
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }),
        "ibv_post_send");
    const char *sent = ibv_wc_status_str(next(&a).status);

    /* The peer is late with its receive. */
    usleep(200 * 1000);
    sge = sge_of(to, sizeof there);
    struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad;
    int posted = ibv_post_recv(b.qp, &recv, &bad);
    usleep(500 * 1000);
    say("R24.12: %s: a SEND without a receive \"%s\"; a receive behind it returned %d, and the "
        "peer has \"%s\"", there[0] ? "no harm" : "lost message", sent, posted, there);
    return 0;
}
