/* Proves R6.11: a region is deregistered beneath a bound window, the result is ignored, and its
 * memory is reused. */
#include "common.h"

#define SIZE 512

int main(void)
{
    static char mine[16] = "from the peer";
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    char *memory = malloc(SIZE);
    must(memory != NULL, "malloc");
    struct ibv_mr *mr = region(memory, SIZE,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mr *from = region(mine, sizeof mine, 0);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");
    struct ibv_send_wr bind = bind_of(mw, mr);
    must(!post_send(&pair[0], bind), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    uint32_t rkey = bind.bind_mw.rkey;
    uint64_t addr = bind.bind_mw.bind_info.addr;
    int deregistered = ibv_dereg_mr(mr);
    free(memory);
    char *volatile others = malloc(SIZE);
    must(others != NULL, "malloc");
    strcpy(others, "a stranger's data");
    const char *written = write_by(&pair[1], from, sizeof mine, (void *)(uintptr_t)addr, rkey);
    say("R6.11: %s: ibv_dereg_mr returned %s; the peer's WRITE by the window \"%s\", and the "
        "block's next owner reads \"%.20s\"",
        strcmp(others, "a stranger's data") ? "corruption" : "no harm",
        deregistered ? strerror(deregistered) : "0", written, others);
    return 0;
}
