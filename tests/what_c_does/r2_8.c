/* Proves R2.8: lengths of an inline message whose sum does not fit 32 bits. */
#include "common.h"

#include <sys/mman.h>

#define HALF 0x80000000u

int main(void)
{
    struct want want = { .type = IBV_QPT_RC, .inline_bytes = 64 };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    /* The source is really there, all of it, so that what faults is the copy's other side. */
    void *data = mmap(NULL, HALF, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(data != MAP_FAILED, "mmap");

    struct ibv_sge sge[2] = { { (uintptr_t)data, HALF, 0 }, { (uintptr_t)data, HALF, 0 } };
    struct ibv_send_wr send = {
        .sg_list = sge, .num_sge = 2, .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
    };
    struct ibv_send_wr *bad;
    say("R2.8: posting two inline pieces of 2 GiB, whose sum the library takes for 0");
    int posted = ibv_post_send(pair[0].qp, &send, &bad);
    say("R2.8: survived: post returned %d", posted);
    return 0;
}
