/* Programs as they are written: receive and answer, one buffer on several queues. C0 does what it must; C2 checks what the
 * crate checks: room in the completion queue, the buffer's protection domain, who has it, a completion's queue, its length. */
#include "env.h"
#include "fields.h"

/* The tags of C2's wr_ids: no buffer, a receive, all that an address has free. */
enum { NO_BUFFER = 1, RECEIVED = 4, TAGS = 63 };

#define TWINS(c) \
	INLINE int c##_answer(struct env *e, struct ibv_qp *qp, struct buf *b) \
	{ \
		struct ibv_send_wr wr, *bad; \
		struct ibv_sge sge; \
		int ret; \
		CHECK_##c(&e->send, b) \
		sge = b->sge; \
		emit_send(&wr, &sge, e); \
		wr.wr_id = (uintptr_t)b; \
		wr.next = NULL; \
		ret = ibv_post_send(qp, &wr, &bad); \
		return UNLIKELY(ret) ? failed(&wr, bad, ret) : 0; \
	} \
	INLINE int c##_put(struct env *e, struct ibv_qp *qp, struct buf *b) \
	{ \
		struct ibv_send_wr wr, *bad; \
		struct ibv_sge sge; \
		int ret; \
		CHECK_##c(&e->send, b) \
		sge = b->sge; \
		emit_write(&wr, &sge, e); \
		wr.wr_id = (uintptr_t)b; \
		wr.next = NULL; \
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
		ret = is_shared ? ibv_post_srq_recv(e->srq, &wr, &bad) : ibv_post_recv(e->qp, &wr, &bad); \
		return UNLIKELY(ret) ? failed(&wr, bad, ret) : 0; \
	} \
	/* Polls `n`; receives are answered on `to`, if there is one, what else is done goes back. */ \
	INLINE int c##_done(struct env *e, int n, struct ibv_qp *to) \
	{ \
		struct ibv_wc wc[BATCH], *at = wc; \
		struct buf **home = e->bufs; \
		int ret, got = ibv_poll_cq(e->cq, n, wc); \
		if (UNLIKELY(got <= 0)) \
			return got ? failed(wc, NULL, got) : 0; \
		do { \
			struct buf *b; \
			if (UNLIKELY(at->status)) \
				return failed(at, NULL, at->status); \
			TAKE_##c(b, at) \
			if (IS_RECEIVE_##c(at)) { \
				LENGTH_##c(b, at) \
				if (to) { \
					ret = c##_answer(e, to, b); \
					if (UNLIKELY(ret)) \
						return ret; \
					continue; \
				} \
			} \
			*home++ = b; \
		} while (at++, --got); \
		return 0; \
	} \
	int c##_readme(struct env *e) \
	{ \
		int ret = c##_put(e, e->qp, e->bufs[0]); \
		return UNLIKELY(ret) ? ret : c##_done(e, BATCH, NULL); \
	} \
	INLINE int c##_echoes(struct env *e, int n, int is_shared, struct ibv_qp *to) \
	{ \
		int i, ret; \
		for (i = 0; i < n; i++) { \
			ret = c##_receive(e, is_shared, e->bufs[i]); \
			if (UNLIKELY(ret)) \
				return ret; \
		} \
		ret = c##_done(e, BATCH, to); \
		return UNLIKELY(ret) || !to ? ret : c##_done(e, BATCH, NULL); \
	} \
	int c##_echo(struct env *e) { return c##_echoes(e, 1, 0, e->qp); } \
	int c##_echo_narrow(struct env *e) { return c##_echoes(e, 1, 0, e->qp); } \
	int c##_echo8(struct env *e) { return c##_echoes(e, 8, 0, e->qp); } \
	int c##_echo8_narrow(struct env *e) { return c##_echoes(e, 8, 0, e->qp); } \
	int c##_shared1(struct env *e) { return c##_echoes(e, 1, 1, NULL); } \
	int c##_shared1_narrow(struct env *e) { return c##_echoes(e, 1, 1, NULL); } \
	int c##_shared16(struct env *e) { return c##_echoes(e, 16, 1, NULL); } \
	int c##_shared16_narrow(struct env *e) { return c##_echoes(e, 16, 1, NULL); } \
	int c##_shared_answer(struct env *e) { return c##_echoes(e, 1, 1, e->qp); } \
	int c##_two_queue_pairs(struct env *e) \
	{ \
		int ret = c##_put(e, e->qp, e->bufs[0]); \
		if (UNLIKELY(ret)) \
			return ret; \
		ret = c##_done(e, 1, NULL); \
		if (UNLIKELY(ret)) \
			return ret; \
		ret = c##_put(e, e->other, e->bufs[0]); \
		return UNLIKELY(ret) ? ret : c##_done(e, 1, NULL); \
	}

#define CHECK_c0(q, b)
#define CHECK_SHARED_c0(q, b)
#define WHOLE_c0(sge, b) \
	sge = (b)->sge; \
	sge.length = (b)->capacity;
#define TAG_c0 0
#define TAKE_c0(b, wc) b = (struct buf *)(uintptr_t)(wc)->wr_id;
#define IS_RECEIVE_c0(wc) ((wc)->opcode & IBV_WC_RECV)
#define LENGTH_c0(b, wc) (b)->sge.length = (wc)->byte_len;

#define CHECK_SHARED_c2(q, b) \
	if (UNLIKELY((b)->pd != (q)->pd)) \
		return failed(b, NULL, EINVAL); \
	(b)->counter = &(q)->completed;
#define CHECK_c2(q, b) \
	if (UNLIKELY((int32_t)--(q)->credit < 0)) \
		return failed(b, NULL, ENOMEM); \
	CHECK_SHARED_c2(q, b)
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

TWINS(c0)
TWINS(c2)
