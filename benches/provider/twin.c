/*
 * What the program does, in C, by hand: field by field into work requests that are there already, with
 * the result of each call and the status of each completion looked at.
 */
#include <infiniband/verbs.h>
#include <stdint.h>

/* `struct Env` of main.rs. Those of extended posting and polling begin with these. */
struct env {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	uint64_t remote;
	uint32_t length, lkey, rkey;
	/* The next of the buffers. */
	uint32_t next;
	uint64_t addr[64];
	uint8_t payload[16];
	/* What the program does with the times of completions. */
	uint64_t sum;
};

static inline uint64_t next(struct env *env)
{
	return env->addr[env->next++ & 63];
}

static void describe(struct ibv_send_wr *wr, struct ibv_sge *sge, struct env *env)
{
	sge->addr = next(env);
	sge->length = env->length;
	sge->lkey = env->lkey;
	wr->wr_id = sge->addr;
	wr->next = 0;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = IBV_WR_RDMA_WRITE;
	wr->send_flags = 0;
	wr->wr.rdma.remote_addr = env->remote;
	wr->wr.rdma.rkey = env->rkey;
}

int twin_write(void *at)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct env *env = at;

	describe(&wr, &sge, env);
	return ibv_post_send(env->qp, &wr, &bad);
}

int twin_inline(void *at)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct env *env = at;

	sge.addr = (uintptr_t)env->payload;
	sge.length = 16;
	wr.wr_id = 0;
	wr.next = 0;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_INLINE;
	return ibv_post_send(env->qp, &wr, &bad);
}

int twin_chain(void *at)
{
	struct ibv_send_wr wr[4], *bad;
	struct ibv_sge sge[4];
	struct env *env = at;

	for (int i = 0; i < 4; i++) {
		describe(&wr[i], &sge[i], env);
		wr[i].next = i < 3 ? &wr[i + 1] : 0;
	}
	return ibv_post_send(env->qp, wr, &bad);
}

int twin_recv(void *at)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge;
	struct env *env = at;

	sge.addr = next(env);
	sge.length = env->length;
	sge.lkey = env->lkey;
	wr.wr_id = sge.addr;
	wr.next = 0;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	return ibv_post_recv(env->qp, &wr, &bad);
}

/* One completion, which must be there. */
int twin_poll(void *at)
{
	struct ibv_wc wc;
	struct env *env = at;

	return ibv_poll_cq(env->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS;
}

static inline void session_write(struct ibv_qp_ex *qp, struct env *env)
{
	uint64_t addr = next(env);

	qp->wr_id = addr;
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, env->rkey, env->remote);
	ibv_wr_set_sge(qp, env->lkey, addr, env->length);
}

int twin_session1(void *at)
{
	struct env *env = at;
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)env->qp;

	ibv_wr_start(qp);
	session_write(qp, env);
	return ibv_wr_complete(qp);
}

int twin_session4(void *at)
{
	struct env *env = at;
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)env->qp;

	ibv_wr_start(qp);
	for (int i = 0; i < 4; i++)
		session_write(qp, env);
	return ibv_wr_complete(qp);
}

int twin_session_inline(void *at)
{
	struct env *env = at;
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)env->qp;

	ibv_wr_start(qp);
	qp->wr_id = 0;
	qp->wr_flags = IBV_SEND_INLINE;
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, env->payload, 16);
	return ibv_wr_complete(qp);
}

/* As many completions with their times, which must be there. */
static inline int timed(struct env *env, int n)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = (struct ibv_cq_ex *)env->cq;
	int failed = 0, ret = ibv_start_poll(cq, &attr);

	if (ret)
		return ret;
	for (int i = 0;;) {
		failed |= cq->status;
		env->sum += ibv_wc_read_completion_ts(cq);
		if (++i == n)
			break;
		ret = ibv_next_poll(cq);
		if (ret)
			break;
	}
	ibv_end_poll(cq);
	return ret | failed;
}

int twin_timed1(void *at)
{
	return timed(at, 1);
}

int twin_timed16(void *at)
{
	return timed(at, 16);
}
