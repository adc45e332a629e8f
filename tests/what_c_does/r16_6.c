/* Proves R16.6: rdma_post_send on an id that has no queue pair yet. */
#include "common.h"

int main(void)
{
    static char mine[64];
    struct rdma_cm_id *id;

    open_device();
    struct ibv_mr *mr = region(mine, sizeof mine, IBV_ACCESS_LOCAL_WRITE);
    must(!rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
    say("R16.6: calling rdma_post_send before rdma_create_qp");
    int posted = rdma_post_send(id, NULL, mine, sizeof mine, mr, 0);
    say("R16.6: survived: it returned %d", posted);
    return 0;
}
