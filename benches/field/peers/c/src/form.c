/* The same work in C by the best hand: no books, and work requests written field by field, without a store that the opcode
 * does not need. (Of an initialiser of the whole struct gcc makes a loop that clears it first.) Each gives 0 if it worked. */
#include <stddef.h>

#include "form.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))

INLINE void fill(struct ibv_send_wr *wr, struct ibv_sge *sge, uint64_t wr_id, enum ibv_wr_opcode opcode,
		 unsigned int flags)
{
	wr->wr_id = wr_id;
	wr->next = NULL;
	wr->sg_list = sge;
	wr->num_sge = 1;
	wr->opcode = opcode;
	wr->send_flags = flags;
#ifdef __clang__
	/* With it, constants are one store of 16 bytes. gcc does not take the offer. */
	wr->imm_data = 0;
#endif
}

INLINE void fill_write(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct buf *b, unsigned int flags)
{
	*sge = b->sge;
	fill(wr, sge, (uintptr_t)b, IBV_WR_RDMA_WRITE, flags);
	wr->wr.rdma.remote_addr = REMOTE_ADDR;
	wr->wr.rdma.rkey = REMOTE_KEY;
}

INLINE int post_write(struct form *f, const struct buf *b)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	fill_write(&wr, &sge, b, IBV_SEND_SIGNALED);
	return ibv_post_send(f->qp, &wr, &bad);
}

INLINE int post_send(struct form *f, const struct buf *b)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge = b->sge;

	fill(&wr, &sge, (uintptr_t)b, IBV_WR_SEND, IBV_SEND_SIGNALED);
	return ibv_post_send(f->qp, &wr, &bad);
}

INLINE int post_recv(struct form *f, const struct buf *b)
{
	struct ibv_recv_wr wr, *bad;
	struct ibv_sge sge = b->sge;

	sge.length = LEN;
	wr.wr_id = (uintptr_t)b;
	wr.next = NULL;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	return ibv_post_recv(f->qp, &wr, &bad);
}

/* Four in one post; the last has the flags of the last. */
INLINE int post_chain(struct form *f, unsigned int flags, unsigned int last)
{
	struct ibv_send_wr wr[4], *bad;
	struct ibv_sge sge[4];

	_Pragma("GCC unroll 4")
	for (int i = 0; i < 4; i++) {
		fill_write(&wr[i], &sge[i], &f->bufs[i], i < 3 ? flags : last);
		wr[i].next = i < 3 ? &wr[i + 1] : NULL;
	}
	return ibv_post_send(f->qp, wr, &bad);
}

/* The buffer of the one completion that is there, or NULL. */
INLINE struct buf *poll_buf(struct form *f)
{
	struct ibv_wc wc;

	if (UNLIKELY(ibv_poll_cq(f->cq, 1, &wc) <= 0 || wc.status))
		return NULL;
	return (struct buf *)(uintptr_t)wc.wr_id;
}

int form_post(struct form *f)
{
	return post_write(f, &f->bufs[0]);
}

int form_chain4(struct form *f)
{
	return post_chain(f, IBV_SEND_SIGNALED, IBV_SEND_SIGNALED);
}

int form_recv(struct form *f)
{
	return post_recv(f, &f->bufs[0]);
}

int form_poll1(struct form *f)
{
	struct ibv_wc wc;

	if (UNLIKELY(ibv_poll_cq(f->cq, 1, &wc) <= 0 || wc.status))
		return -1;
	f->ids[0] = wc.wr_id;
	return 0;
}

int form_poll16(struct form *f)
{
	struct ibv_wc wc[BATCH], *at = wc;
	uint64_t *id = f->ids;
	int got = ibv_poll_cq(f->cq, BATCH, wc);

	if (UNLIKELY(got <= 0))
		return -1;
	do {
		if (UNLIKELY(at->status))
			return -1;
		*id++ = at->wr_id;
	} while (at++, --got);
	return 0;
}

int form_cycle(struct form *f)
{
	struct buf *b;

	if (UNLIKELY(post_write(f, &f->bufs[0])))
		return -1;
	b = poll_buf(f);
	f->ids[0] = (uintptr_t)b;
	return b ? 0 : -1;
}

int form_loop(struct form *f)
{
	struct buf *b = &f->bufs[0];

	for (int i = 0; i < ROUNDS; i++) {
		if (UNLIKELY(post_write(f, b)))
			return -1;
		b = poll_buf(f);
		if (UNLIKELY(!b))
			return -1;
	}
	return 0;
}

int form_length(struct form *f)
{
	struct buf *b = &f->bufs[0];

	for (int i = 0; i < ROUNDS; i++) {
		b->sge.length = 8 + i;
		if (UNLIKELY(post_write(f, b)))
			return -1;
		b = poll_buf(f);
		if (UNLIKELY(!b))
			return -1;
	}
	b->sge.length = LEN;
	return 0;
}

int form_chain(struct form *f)
{
	for (int i = 0; i < ROUNDS; i++)
		if (UNLIKELY(post_chain(f, 0, IBV_SEND_SIGNALED) || !poll_buf(f)))
			return -1;
	return 0;
}

int form_inline(struct form *f)
{
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_send_wr wr, *bad;
		struct ibv_sge sge;
		struct ibv_wc wc;

		sge.addr = (uintptr_t)f->payload;
		sge.length = PAYLOAD;
		sge.lkey = 0;
		fill(&wr, &sge, 0, IBV_WR_SEND, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
		if (UNLIKELY(ibv_post_send(f->qp, &wr, &bad)))
			return -1;
		if (UNLIKELY(ibv_poll_cq(f->cq, 1, &wc) <= 0 || wc.status))
			return -1;
	}
	return 0;
}

/* What arrives is answered, what was sent receives again: so many completions. */
INLINE int echoes(struct form *f, int items)
{
	do {
		struct ibv_wc wc[BATCH], *at = wc;
		int got = ibv_poll_cq(f->cq, BATCH, wc);

		if (UNLIKELY(got <= 0))
			return -1;
		items -= got;
		do {
			struct buf *b = (struct buf *)(uintptr_t)at->wr_id;

			if (UNLIKELY(at->status))
				return -1;
			if (at->opcode & IBV_WC_RECV) {
				b->sge.length = at->byte_len;
				if (UNLIKELY(post_send(f, b)))
					return -1;
			} else if (UNLIKELY(post_recv(f, b))) {
				return -1;
			}
		} while (at++, --got);
	} while (items > 0);
	return 0;
}

int form_echo(struct form *f)
{
	return echoes(f, ROUNDS);
}

int form_echo8(struct form *f)
{
	return echoes(f, 8 * ROUNDS);
}

/* A receive of each of the first buffers; not measured. */
int form_receive(struct form *f, int n)
{
	for (int i = 0; i < n; i++)
		if (post_recv(f, &f->bufs[i]))
			return -1;
	return 0;
}
