/* How a program posts a buffer and takes it back. C0 does only the necessary work. C2 makes the same checks as the crate: room in
 * the completion queue, the buffer's protection domain and owner, a completion's queue and length, the end of a remote slice, the
 * name of an address handle. */
#ifndef LIFE_H
#define LIFE_H

#include "env.h"
#include "fields.h"

/* The tags of C2's wr_ids: no buffer, a receive, and the mask of the free bits of an address. */
enum { NO_BUFFER = 1, RECEIVED = 4, TAGS = 63, ROUNDS = 32 };

#define TRY(what) \
	do { \
		int failed_with = (what); \
		if (UNLIKELY(failed_with)) \
			return failed_with; \
	} while (0)

#define POSTS(c) \
	INLINE int c##_send(struct env *e, struct ibv_qp *qp, struct buf *b, int opcode, int peer) \
	{ \
		struct ibv_send_wr wr, *bad; \
		struct ibv_sge sge; \
		int ret; \
		CHECK_##c(&e->send, b) \
		sge = b->sge; \
		switch (opcode) { \
		case IBV_WR_SEND: \
			emit_send(&wr, &sge, e); \
			if (peer >= 0) { \
				NAMED_##c(e, peer) \
				wr.wr.ud.ah = e->peers[peer]; \
				wr.wr.ud.remote_qpn = e->remote_qpn; \
				wr.wr.ud.remote_qkey = e->remote_qkey; \
			} \
			break; \
		case IBV_WR_RDMA_WRITE: \
			BOUND_##c(e, b) \
			emit_write(&wr, &sge, e); \
			break; \
		default: \
			sge.length = 8; \
			SHORT_##c(b) \
			emit_faa(&wr, &sge, e); \
			wr.wr.atomic.compare_add = 1; \
		} \
		wr.wr_id = (uintptr_t)b; \
		wr.next = NULL; \
		NO_BAD_##c(bad) \
		ret = ibv_post_send(qp, &wr, &bad); \
		return UNLIKELY(ret) ? failed(&wr, bad, ret) : 0; \
	} \
	INLINE int c##_receive(struct env *e, int is_shared, struct buf *b) \
	{ \
		struct ibv_recv_wr wr, *bad; \
		struct ibv_sge sge; \
		int ret; \
		if (is_shared) { \
			CHECK_SHARED_##c(&e->recv, b) \
		} else { \
			CHECK_##c(&e->recv, b) \
		} \
		WHOLE_##c(sge, b) \
		wr.sg_list = &sge; \
		wr.num_sge = 1; \
		wr.wr_id = (uintptr_t)b | TAG_##c; \
		wr.next = NULL; \
		NO_BAD_##c(bad) \
		ret = is_shared ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad); \
		return UNLIKELY(ret) ? failed(&wr, bad, ret) : 0; \
	}

#define CHECK_c0(q, b)
#define CHECK_SHARED_c0(q, b)
#define BOUND_c0(e, b)
#define SHORT_c0(b) (b)->sge.length = 8;
#define NAMED_c0(e, i)
#define NO_BAD_c0(bad)
#define FULL_c0(e, n)
#define ROOM_c0(q, n)
#define DONE_c0(q, n)
#define PD_c0(q, b)
#define WHOLE_c0(sge, b) \
	sge = (b)->sge; \
	sge.length = (b)->capacity;
#define TAG_c0 0
#define TAKE_c0(b, wc) b = (struct buf *)(uintptr_t)(wc)->wr_id;
#define IS_RECEIVE_c0(wc) ((wc)->opcode & IBV_WC_RECV)
#define LENGTH_c0(b, wc) (b)->sge.length = (wc)->byte_len;

/* Reads the completion counter when there is no room. */
#define ROOM_c2(q, n) \
	if (UNLIKELY((int32_t)((q)->credit -= (n)) < 0)) { \
		(q)->credit += (q)->completed - (q)->seen; \
		(q)->seen = (q)->completed; \
		if (UNLIKELY((int32_t)(q)->credit < 0)) \
			return failed(q, NULL, ENOMEM); \
	}
#define PD_c2(q, b) \
	if (UNLIKELY((b)->pd != (q)->pd)) \
		return failed(b, NULL, EINVAL);
#define CHECK_SHARED_c2(q, b) \
	PD_c2(q, b) \
	(b)->counter = &(q)->completed;
#define CHECK_c2(q, b) \
	ROOM_c2(q, 1) \
	CHECK_SHARED_c2(q, b)
#define BOUND_c2(e, b) \
	if (UNLIKELY((b)->sge.length > (e)->to.len)) \
		return failed(b, NULL, EINVAL);
#define SHORT_c2 SHORT_c0
#define NAMED_c2(e, i) \
	if (UNLIKELY((e)->ah_keys[(i) & (e)->ah_mask] != (uint32_t)(i) + 1)) \
		return failed(e, NULL, EINVAL);
#define NO_BAD_c2(bad) bad = NULL;
#define FULL_c2(e, n) (e)->send.credit = (n);
#define DONE_c2(q, n) (q)->completed += (n);
#define WHOLE_c2 WHOLE_c0
#define TAG_c2 RECEIVED
#define TAKE_c2(b, wc) \
	if (UNLIKELY((wc)->wr_id & NO_BUFFER)) \
		return failed(wc, NULL, EINVAL); \
	b = (struct buf *)(uintptr_t)((wc)->wr_id & ~(uint64_t)TAGS); \
	++*b->counter; \
	b->counter = NULL;
#define IS_RECEIVE_c2(wc) ((wc)->wr_id & RECEIVED)
#define LENGTH_c2(b, wc) (b)->sge.length = (wc)->byte_len < (b)->capacity ? (wc)->byte_len : (b)->capacity;

#endif
