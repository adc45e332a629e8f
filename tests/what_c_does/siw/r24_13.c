/* Proves R24.13: an unsignaled RDMA READ, and a WRITE whose completion stands for it. */
#include "../common.h"

#include <pthread.h>

#define LONG (16u << 20)
#define OURS 0x11
#define THEIRS 0x22

static struct ibv_qp_init_attr depths = {
    .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 16 },
};

/* The memory that the peer reads and writes. */
struct theirs {
    uint64_t addr;
    uint32_t rkey;
};

static void *serve(void *listener)
{
    struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
    struct rdma_cm_id *id;
    char *bytes = calloc(1, LONG);

    must(!rdma_get_request(listener, &id), "rdma_get_request");
    struct ibv_mr *mr = ibv_reg_mr(id->pd, bytes, LONG,
                                   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
                                       IBV_ACCESS_REMOTE_WRITE);
    must(mr != NULL, "ibv_reg_mr");
    memset(bytes, THEIRS, LONG);
    struct theirs theirs = { (uintptr_t)bytes, mr->rkey };
    param.private_data = &theirs;
    param.private_data_len = sizeof theirs;
    must(!rdma_accept(id, &param), "rdma_accept");
    return NULL;
}

int main(void)
{
    struct rdma_conn_param param = { .responder_resources = 4, .initiator_depth = 4 };
    struct rdma_cm_id *listener, *id;
    struct theirs theirs;
    struct ibv_wc wc;
    pthread_t server;
    unsigned i, missing = 0;

    listener = endpoint(RAI_PASSIVE, &depths);
    must(!rdma_listen(listener, 1), "rdma_listen");
    must(!pthread_create(&server, NULL, serve, listener), "pthread_create");
    id = endpoint(0, &depths);
    char *mine = malloc(LONG), *word = malloc(8);
    memset(mine, OURS, LONG);
    memset(word, THEIRS, 8);
    struct ibv_mr *mr =
        ibv_reg_mr(id->pd, mine, LONG, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_mr *of_word = ibv_reg_mr(id->pd, word, 8, IBV_ACCESS_LOCAL_WRITE);
    must(mr && of_word, "ibv_reg_mr");
    must(!rdma_connect(id, &param), "rdma_connect");
    memcpy(&theirs, id->event->param.conn.private_data, sizeof theirs);

    /* As on any queue pair with selective signaling: the last one covers all. */
    must(!rdma_post_read(id, NULL, mine, LONG, mr, 0, theirs.addr, theirs.rkey), "rdma_post_read");
    must(!rdma_post_write(id, NULL, word, 8, of_word, IBV_SEND_SIGNALED, theirs.addr, theirs.rkey),
         "rdma_post_write");
    say("R24.13: polling for the completion of the WRITE");
    while (ibv_poll_cq(id->send_cq, 1, &wc) == 0)
        ;
    for (i = 0; i < LONG; i++)
        missing += mine[i] == OURS;
    if (missing)
        say("R24.13: corruption: the WRITE's completion \"%s\" came before the READ's bytes, which "
            "the device wrote to a buffer that it had given back",
            ibv_wc_status_str(wc.status));
    else
        say("R24.13: survived: the READ's bytes were there");
    return 0;
}
