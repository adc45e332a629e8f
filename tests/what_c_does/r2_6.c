/* Proves R2.6: INLINE on an RDMA READ. */
#include "common.h"

int main(void)
{
    static char payload[16], victim[16], theirs[16] = "from the peer";
    struct want want = { .type = IBV_QPT_RC, .inline_bytes = 64 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *sink = region(payload, sizeof payload, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *other = region(victim, sizeof victim, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_mr *source = region(theirs, sizeof theirs, IBV_ACCESS_REMOTE_READ);

    /* Application data, of which these bytes could be a part: someone else's address and key. */
    struct ibv_sge forged = sge_of(other, sizeof victim);
    memcpy(payload, &forged, sizeof payload);

    struct ibv_sge sge = sge_of(sink, sizeof payload);
    struct ibv_send_wr read = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
        .wr.rdma = { (uintptr_t)theirs, source->rkey },
    };
    struct ibv_send_wr *bad;
    int posted = ibv_post_send(pair[0].qp, &read, &bad);
    struct ibv_wc wc = next(&pair[0]);
    int there = !memcmp(victim, theirs, sizeof victim);
    int here = !memcmp(payload, theirs, sizeof payload);

    say("R2.6: %s: post returned %d, completion \"%s\"; the READ response landed %s",
        there ? "corruption" : "no corruption", posted, ibv_wc_status_str(wc.status),
        there ? "where the payload's bytes said" : here ? "where the SGE said" : "nowhere");
    return 0;
}
