/* Proves R24.4: an RDMA READ into two elements. */
#include "../common.h"

int main(void)
{
    static char theirs[16] = "sixteen letters", head[8], body[8];
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 2, 1, 16 } };
    struct rdma_cm_id *ids[2];

    connect_ends(&depths, ids);
    struct end a = { ids[0]->qp, ids[0]->send_cq };
    struct ibv_mr *from = rdma_reg_read(ids[1], theirs, sizeof theirs);
    /* As siw asks for it: its READs are answered like WRITEs. */
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *to[2] = { ibv_reg_mr(ids[0]->pd, head, sizeof head, access),
                             ibv_reg_mr(ids[0]->pd, body, sizeof body, access) };
    must(from && to[0] && to[1], "ibv_reg_mr");
    struct ibv_sge list[2] = { sge_of(to[0], sizeof head), sge_of(to[1], sizeof body) };
    int posted = post_send(&a, (struct ibv_send_wr){
        .sg_list = list, .num_sge = 2, .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)theirs, from->rkey } });
    if (posted) {
        say("R24.4: refused at post: %s", strerror(posted));
        return 0;
    }
    const char *read = ibv_wc_status_str(next(&a).status);
    say("R24.4: %s: post returned 0, completion \"%s\"; the first element has \"%.8s\", the second "
        "\"%.8s\"", memcmp(body, theirs + 8, 8) ? "lost data" : "no harm", read, head, body);
    return 0;
}
