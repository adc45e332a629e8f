#include "common.h"

#include <pthread.h>
#include <stdarg.h>
#include <time.h>

struct ibv_context *device;
struct ibv_pd *pd;
static union ibv_gid gid;
static uint8_t gid_index = 1;

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout); /* the next thing may be a crash */
}

void must(int worked, const char *what)
{
    if (worked)
        return;
    fprintf(stderr, "%s does not work: %s\n", what, strerror(errno));
    exit(2);
}

void open_device(void)
{
    const char *name = getenv("PROVERBS_DEVICE"), *index = getenv("PROVERBS_GID_INDEX");
    int i, count;
    struct ibv_device **all = ibv_get_device_list(&count);

    for (i = 0; all && i < count && !device; i++)
        if (!name || !strcmp(name, ibv_get_device_name(all[i])))
            device = ibv_open_device(all[i]);
    must(device != NULL, "ibv_open_device");
    if (index)
        gid_index = (uint8_t)atoi(index);
    must(!ibv_query_gid(device, 1, gid_index, &gid), "ibv_query_gid");
    pd = ibv_alloc_pd(device);
    must(pd != NULL, "ibv_alloc_pd");
}

struct ibv_mr *region(void *memory, size_t length, int access)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, length, access);
    must(mr != NULL, "ibv_reg_mr");
    return mr;
}

struct end new_end(const struct want *want)
{
    struct end end;
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = want->type,
        .srq = want->srq,
        .cap = { 16, 16, 2, 1, want->inline_bytes },
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };

    end.cq = want->cq;
    if (!end.cq)
        end.cq = ibv_create_cq(device, want->cqe ? want->cqe : 16, NULL, want->channel, 0);
    must(end.cq != NULL, "ibv_create_cq");
    attr.send_cq = attr.recv_cq = end.cq;
    if (want->ops) {
        attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        attr.send_ops_flags = want->ops;
    }
    end.qp = ibv_create_qp_ex(device, &attr);
    must(end.qp != NULL, "ibv_create_qp");
    return end;
}

static struct ibv_ah_attr to_ourselves(void)
{
    return (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = 1,
        .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 },
    };
}

struct ibv_ah *address(void)
{
    struct ibv_ah_attr attr = to_ourselves();
    struct ibv_ah *ah = ibv_create_ah(pd, &attr);
    must(ah != NULL, "ibv_create_ah");
    return ah;
}

static void modify(struct end *end, struct ibv_qp_attr attr, int mask)
{
    must(!ibv_modify_qp(end->qp, &attr, mask | IBV_QP_STATE), "ibv_modify_qp");
}

void to_state(struct end *end, enum ibv_qp_state state)
{
    modify(end, (struct ibv_qp_attr){ .qp_state = state }, 0);
}

void to_init(struct end *end)
{
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY };
    int last = IBV_QP_QKEY;

    if (end->qp->qp_type != IBV_QPT_UD) {
        last = IBV_QP_ACCESS_FLAGS;
        attr.qp_access_flags =
            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    }
    modify(end, attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | last);
}

void to_rtr(struct end *end, const struct end *peer)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = peer->qp->qp_num,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = to_ourselves(),
    };
    int mask = 0;

    if (end->qp->qp_type != IBV_QPT_UD)
        mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (end->qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    modify(end, attr, mask);
}

void to_rts(struct end *end, const struct want *want)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 17,
        .retry_cnt = 6,
        .rnr_retry = want->wait_for_ever ? 7 : 6,
        .max_rd_atomic = want->no_reads ? 0 : 4,
    };
    int mask = IBV_QP_SQ_PSN;

    if (end->qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    modify(end, attr, mask);
}

void make_pair(const struct want *want, struct end pair[2])
{
    int i;

    for (i = 0; i < 2; i++) {
        pair[i] = new_end(want);
        to_init(&pair[i]);
    }
    for (i = 0; i < 2; i++) {
        to_rtr(&pair[i], &pair[1 - i]);
        to_rts(&pair[i], want);
    }
}

struct rdma_cm_id *endpoint(int flags, const struct ibv_qp_init_attr *depths)
{
    struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *found;
    struct ibv_qp_init_attr attr = *depths;
    struct rdma_cm_id *id;

    must(!rdma_getaddrinfo(getenv("PROVERBS_ADDRESS"), "7471", &hints, &found), "rdma_getaddrinfo");
    must(!rdma_create_ep(&id, found, NULL, &attr), "rdma_create_ep");
    return id;
}

/* A listener, and the id of the request that came. */
struct asked {
    struct rdma_cm_id *listener, *id;
};

static struct rdma_conn_param reads = { .responder_resources = 4, .initiator_depth = 4 };

static void *accept_one(void *asked_)
{
    struct asked *asked = asked_;

    must(!rdma_get_request(asked->listener, &asked->id), "rdma_get_request");
    must(!rdma_accept(asked->id, &reads), "rdma_accept");
    return NULL;
}

void connect_ends(const struct ibv_qp_init_attr *depths, struct rdma_cm_id *ids[2])
{
    struct asked asked = { endpoint(RAI_PASSIVE, depths), NULL };
    pthread_t server;

    must(!rdma_listen(asked.listener, 1), "rdma_listen");
    must(!pthread_create(&server, NULL, accept_one, &asked), "pthread_create");
    ids[0] = endpoint(0, depths);
    must(!rdma_connect(ids[0], &reads), "rdma_connect");
    must(!pthread_join(server, NULL), "pthread_join");
    ids[1] = asked.id;
}

static void pause_for(int milliseconds)
{
    struct timespec time = { milliseconds / 1000, milliseconds % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

struct ibv_wc next(struct end *end)
{
    struct ibv_wc wc;
    int i;

    memset(&wc, 0xff, sizeof wc); /* what the library leaves alone is then seen */
    for (i = 0; i < 5000; i++) {
        if (ibv_poll_cq(end->cq, 1, &wc) == 1)
            return wc;
        pause_for(1);
    }
    errno = ETIMEDOUT;
    must(0, "waiting for a completion");
    return wc;
}

int nothing_for(struct end *end, int milliseconds)
{
    struct ibv_wc wc;

    for (; milliseconds > 0; milliseconds -= 10) {
        if (ibv_poll_cq(end->cq, 1, &wc) != 0)
            return 0;
        pause_for(10);
    }
    return 1;
}

const char *state(struct end *end)
{
    static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;

    must(!ibv_query_qp(end->qp, &attr, IBV_QP_STATE, &init), "ibv_query_qp");
    return attr.qp_state <= IBV_QPS_ERR ? names[attr.qp_state] : "?";
}

const char *state_at_last(struct end *end)
{
    int i;

    for (i = 0; i < 100 && strcmp(state(end), "ERR"); i++)
        pause_for(10);
    return state(end);
}

struct ibv_sge sge_of(struct ibv_mr *mr, uint32_t length)
{
    return (struct ibv_sge){ (uintptr_t)mr->addr, length, mr->lkey };
}

void post_recv(struct end *end, struct ibv_mr *mr, uint32_t length)
{
    struct ibv_sge sge = sge_of(mr, length);
    struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

    must(!ibv_post_recv(end->qp, &wr, &bad), "ibv_post_recv");
}

int post_send(struct end *end, struct ibv_send_wr wr)
{
    struct ibv_send_wr *bad;

    return ibv_post_send(end->qp, &wr, &bad);
}

struct ibv_send_wr bind_of(struct ibv_mw *mw, struct ibv_mr *mr)
{
    return (struct ibv_send_wr){
        .opcode = IBV_WR_BIND_MW,
        .send_flags = IBV_SEND_SIGNALED,
        .bind_mw = {
            .mw = mw,
            .rkey = ibv_inc_rkey(mw->rkey),
            .bind_info = { mr, (uintptr_t)mr->addr, mr->length, IBV_ACCESS_REMOTE_WRITE },
        },
    };
}

const char *write_by(struct end *end, struct ibv_mr *from, uint32_t length, void *addr,
                     uint32_t rkey)
{
    struct ibv_sge sge = sge_of(from, length);
    struct ibv_send_wr write = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { (uintptr_t)addr, rkey },
    };

    must(!post_send(end, write), "ibv_post_send");
    return ibv_wc_status_str(next(end).status);
}
