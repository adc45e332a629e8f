/* Proves R24.6: RESET, after which the program takes its receives' buffers for its own. */
#include "../common.h"

int main(void)
{
    static char message[32] = "from the peer", buffer[32];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_id *ids[2];

    connect_ends(&depths, ids);
    struct end a = { ids[0]->qp, ids[0]->send_cq }, b = { ids[1]->qp, ids[1]->recv_cq };
    struct ibv_mr *from = rdma_reg_msgs(ids[0], message, sizeof message);
    struct ibv_mr *to = rdma_reg_msgs(ids[1], buffer, sizeof buffer);
    must(from && to, "rdma_reg_msgs");
    post_recv(&b, to, sizeof buffer);

    to_state(&b, IBV_QPS_RESET);
    strcpy(buffer, "a stranger's data");
    struct ibv_sge sge = sge_of(from, sizeof message);
    must(!post_send(&a, (struct ibv_send_wr){
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }),
        "ibv_post_send");
    const char *sent = ibv_wc_status_str(next(&a).status);
    usleep(500 * 1000);
    say("R24.6: %s: ibv_modify_qp to RESET returned 0; then a SEND of the peer \"%s\", and the "
        "earlier buffer reads \"%s\"",
        strcmp(buffer, "a stranger's data") ? "corruption" : "no harm", sent,
        buffer);
    return 0;
}
