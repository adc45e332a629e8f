/* The control of zero_copy.sh: what the suite must not do. An unsignaled WRITE, a signaled one behind it whose completion
 * stands for both, and then other bytes in the buffer. It exits with 0 if the peer got some of these, so that the delay and
 * the kernel are such that the suite could have failed. */
#include "../../what_c_does/common.h"

#define LONG (1u << 20)
#define BEFORE 0x11
#define AFTER 0x22

int main(void)
{
    static char theirs[LONG], ours[LONG], flag[8], word[8] = { 1 };
    struct ibv_qp_init_attr depths = { .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 } };
    struct rdma_cm_id *ids[2];
    unsigned late = 0;

    connect_ends(&depths, ids);
    struct end a = { ids[0]->qp, ids[0]->send_cq };
    struct ibv_mr *to = rdma_reg_write(ids[1], theirs, LONG);
    struct ibv_mr *to_flag = rdma_reg_write(ids[1], flag, sizeof flag);
    struct ibv_mr *from = rdma_reg_msgs(ids[0], ours, LONG);
    struct ibv_mr *from_word = rdma_reg_msgs(ids[0], word, sizeof word);
    must(to && to_flag && from && from_word, "ibv_reg_mr");
    memset(ours, BEFORE, LONG);
    struct ibv_sge bytes = sge_of(from, LONG), last = sge_of(from_word, sizeof word);
    struct ibv_send_wr second = {
        .sg_list = &last, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = { (uintptr_t)flag, to_flag->rkey },
    };
    struct ibv_send_wr first = {
        .next = &second, .sg_list = &bytes, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .wr.rdma = { (uintptr_t)theirs, to->rkey },
    };
    must(!post_send(&a, first), "ibv_post_send");
    must(next(&a).status == IBV_WC_SUCCESS, "the signaled WRITE");
    memset(ours, AFTER, LONG);
    for (int i = 0; i < 600 && !*(volatile char *)flag; i++)
        usleep(100000);
    must(flag[0], "the WRITE of the flag");
    for (unsigned i = 0; i < LONG; i++)
        late += theirs[i] == AFTER;
    say("the peer got %u of %u bytes that were written after the completion", late, LONG);
    return late == 0;
}
