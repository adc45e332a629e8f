/* Protection domains, regions, queues and queue pairs, with the fields that posting needs. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Objects of one size, and a free list. */
enum { OBJECT = 576, ARENA = OBJECT << 16 };
static unsigned char arena[ARENA] __attribute__((aligned(64)));
static size_t arena_len;
static void *spare;

void *take(size_t size)
{
	unsigned char *at = spare;
	size_t i;

	if (size > OBJECT || (!at && arena_len == ARENA))
		abort();
	if (at) {
		spare = *(void **)at;
	} else {
		at = &arena[arena_len];
		arena_len += OBJECT;
	}
	for (i = 0; i < size; i++)
		at[i] = 0;
	return at;
}

void give(void *at)
{
	*(void **)at = spare;
	spare = at;
}

/* Unique numbers and keys, which are the same in each run. */
static uint32_t next = 0x100;

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = take(sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
	give(pd);
	return 0;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access)
{
	struct ibv_mr *mr = take(sizeof(*mr));

	(void)iova;
	(void)access;
	if (!mr)
		return NULL;
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = len;
	mr->lkey = next++;
	mr->rkey = next++;
	return mr;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
	return ibv_reg_mr_iova2(pd, addr, len, iova, access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	give(mr);
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int vector)
{
	/* Room for the fields that extend_cq sets. */
	struct ibv_cq *cq = take(sizeof(struct ibv_cq_ex));

	(void)vector;
	if (!cq)
		return NULL;
	cq->context = context;
	cq->channel = channel;
	cq->cq_context = cq_context;
	cq->cqe = cqe;
	return cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	give(cq);
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	/* Room for the fields that extend_qp sets. */
	struct ibv_qp *qp = take(sizeof(struct ibv_qp_ex));

	if (!qp)
		return NULL;
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->pd = pd;
	qp->send_cq = attr->send_cq;
	qp->recv_cq = attr->recv_cq;
	qp->srq = attr->srq;
	qp->qp_num = next++;
	qp->qp_type = attr->qp_type;
	qp->state = IBV_QPS_RESET;
	return qp;
}

struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
	return (struct ibv_qp_ex *)qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE)
		qp->state = attr->qp_state;
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)mask;
	memset(attr, 0, sizeof(*attr));
	memset(init, 0, sizeof(*init));
	attr->qp_state = qp->state;
	attr->cur_qp_state = qp->state;
	init->qp_type = qp->qp_type;
	init->send_cq = qp->send_cq;
	init->recv_cq = qp->recv_cq;
	init->srq = qp->srq;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	give(qp);
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = take(sizeof(*ah));

	(void)attr;
	if (ah) {
		ah->context = pd->context;
		ah->pd = pd;
	}
	return ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	give(ah);
	return 0;
}
