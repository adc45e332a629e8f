/* Proves R6.9: memory freed while it is registered and under a posted receive. */
#include "common.h"

#define SIZE 512

int main(void)
{
    static char message[SIZE] = "from the peer";
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *from = region(message, SIZE, IBV_ACCESS_LOCAL_WRITE);
    char *buffer = malloc(SIZE);
    must(buffer != NULL, "malloc");
    struct ibv_mr *to = region(buffer, SIZE, IBV_ACCESS_LOCAL_WRITE);
    post_recv(&pair[1], to, SIZE);
    free(buffer);

    /* Another part of the program, unrelated to the network. */
    char *volatile others = malloc(SIZE);
    must(others != NULL, "malloc");
    strcpy(others, "a stranger's data");

    struct ibv_sge sge = sge_of(from, SIZE);
    struct ibv_send_wr send = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr *bad;
    must(!ibv_post_send(pair[0].qp, &send, &bad), "ibv_post_send");
    const char *sent = ibv_wc_status_str(next(&pair[0]).status);
    const char *received = ibv_wc_status_str(next(&pair[1]).status);
    int hit = strcmp(others, "a stranger's data") != 0;
    say("R6.9: %s: send \"%s\", receive \"%s\"; the block's next owner reads \"%.20s\"",
        hit ? "corruption" : "no corruption", sent, received, others);
    return 0;
}
