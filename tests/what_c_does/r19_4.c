/* Proves R19.4: a queue pair is destroyed while a window is bound through it. */
#include "common.h"

#include <sys/wait.h>

int main(void)
{
    static char memory[64];
    struct want want = { .type = IBV_QPT_RC };
    struct end pair[2];

    open_device();
    make_pair(&want, pair);
    struct ibv_mr *mr = region(memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_MW_BIND);
    struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
    must(mw != NULL, "ibv_alloc_mw");
    must(!post_send(&pair[0], bind_of(mw, mr)), "ibv_post_send");
    must(next(&pair[0]).status == IBV_WC_SUCCESS, "the bind");

    /* The kernel blocks the caller for a minute, with its open files. */
    pid_t child = fork();
    if (child == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        _exit(ibv_destroy_qp(pair[0].qp));
    }
    int i, status, gone = 0;
    for (i = 0; i < 200 && !gone; i++) {
        gone = waitpid(child, &status, WNOHANG) == child;
        usleep(10 * 1000);
    }
    say("R19.4: %s: ibv_destroy_qp, while a window is bound through the queue pair, has %s in 2 s",
        gone ? "no harm" : "hang", gone ? "returned" : "not returned");
    return 0;
}
