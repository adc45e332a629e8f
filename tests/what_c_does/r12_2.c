/* Proves R12.2: a queue pair destroyed twice. */
#include "common.h"

int main(void)
{
    struct want want = { .type = IBV_QPT_RC };

    open_device();
    struct end end = new_end(&want);
    int first = ibv_destroy_qp(end.qp);
    say("R12.2: ibv_destroy_qp returned %d; destroying the same queue pair again", first);
    int second = ibv_destroy_qp(end.qp);
    say("R12.2: survived: the second returned %d", second);
    return 0;
}
