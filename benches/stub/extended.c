/* The ibv_wr_* interface and cq_ex, on the data path of benches/stub/stub.c. They post the work requests that they
 * collect there, so that all forms leave the same image. */
#include <errno.h>
#include <stdlib.h>

#include "provider.h"

enum { MOST = 64 };

/* One batch at a time: only one thread posts to a queue pair. */
static struct ibv_send_wr batch[MOST];
static struct ibv_sge sges[MOST];
static unsigned int count;

static struct ibv_send_wr *add(struct ibv_qp_ex *qp, enum ibv_wr_opcode opcode)
{
	struct ibv_send_wr *wr;

	if (count == MOST)
		abort();
	wr = &batch[count];
	wr->wr_id = qp->wr_id;
	wr->next = NULL;
	wr->sg_list = NULL;
	wr->num_sge = 0;
	wr->opcode = opcode;
	wr->send_flags = qp->wr_flags;
	if (count)
		batch[count - 1].next = wr;
	count++;
	return wr;
}

static void start(struct ibv_qp_ex *qp)
{
	(void)qp;
	count = 0;
}

static void send(struct ibv_qp_ex *qp)
{
	add(qp, IBV_WR_SEND);
}

static void rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr)
{
	struct ibv_send_wr *wr = add(qp, IBV_WR_RDMA_WRITE);

	wr->wr.rdma.remote_addr = addr;
	wr->wr.rdma.rkey = rkey;
}

static void set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
	unsigned int last = count - 1;

	(void)qp;
	sges[last].addr = addr;
	sges[last].length = length;
	sges[last].lkey = lkey;
	batch[last].sg_list = &sges[last];
	batch[last].num_sge = 1;
}

/* Copies the bytes immediately, like a device. */
static void set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
	static unsigned char bytes[MOST][64];
	unsigned int last = count - 1;
	size_t i;

	if (length > sizeof(bytes[last]))
		abort();
	for (i = 0; i < length; i++)
		bytes[last][i] = ((unsigned char *)addr)[i];
	set_sge(qp, 0, (uintptr_t)bytes[last], length);
	batch[last].send_flags |= IBV_SEND_INLINE;
}

static int complete(struct ibv_qp_ex *qp)
{
	struct ibv_send_wr *bad;

	return ibv_post_send(&qp->qp_base, batch, &bad);
}

static void give_up(struct ibv_qp_ex *qp)
{
	(void)qp;
	count = 0;
}

void extend_qp(struct ibv_qp_ex *qp)
{
	qp->wr_start = start;
	qp->wr_send = send;
	qp->wr_rdma_write = rdma_write;
	qp->wr_set_sge = set_sge;
	qp->wr_set_inline_data = set_inline_data;
	qp->wr_complete = complete;
	qp->wr_abort = give_up;
}

static struct ibv_wc current;

static int next_poll(struct ibv_cq_ex *cq)
{
	if (ibv_poll_cq(ibv_cq_ex_to_cq(cq), 1, &current) == 0)
		return ENOENT;
	cq->wr_id = current.wr_id;
	cq->status = current.status;
	return 0;
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
	(void)attr;
	return next_poll(cq);
}

static void end_poll(struct ibv_cq_ex *cq)
{
	(void)cq;
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
	(void)cq;
	return current.opcode;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
	(void)cq;
	return current.byte_len;
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
	(void)cq;
	return current.qp_num;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
	(void)cq;
	return 0;
}

/* A clock with one tick per completion. */
static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
	static uint64_t ticks;

	(void)cq;
	return ++ticks;
}

void extend_cq(struct ibv_cq_ex *cq)
{
	cq->start_poll = start_poll;
	cq->next_poll = next_poll;
	cq->end_poll = end_poll;
	cq->read_opcode = read_opcode;
	cq->read_byte_len = read_byte_len;
	cq->read_qp_num = read_qp_num;
	cq->read_wc_flags = read_wc_flags;
	cq->read_vendor_err = read_vendor_err;
	cq->read_completion_ts = read_completion_ts;
}
