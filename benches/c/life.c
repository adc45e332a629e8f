/* Programs as they are written, in the steady state: receive and answer, one buffer on several queues. C0 does what it must;
 * C2 checks what the crate checks: room in the completion queue, the buffer's protection domain, who has it, a completion's
 * queue, its length, the end of a remote slice, the name of an address handle. */
#include "env.h"
#include "fields.h"

/* The tags of C2's wr_ids: no buffer, a receive, all that an address has free. */
enum { NO_BUFFER = 1, RECEIVED = 4, TAGS = 63, ROUNDS = 32, GRH_LEN = 40 };

/* A program looks at what arrived. */
static volatile uint32_t seen;

#define TRY(what) \
	do { \
		int failed_with = (what); \
		if (UNLIKELY(failed_with)) \
			return failed_with; \
	} while (0)

#define TWINS(c) \
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
	} \
	/* One after the other, on `e->qp`, or by turns. */ \
	INLINE int c##_one_by_one(struct env *e, int opcode, int sets_len, int by_turns) \
	{ \
		struct buf *b = e->bufs[0]; \
		int i; \
		for (i = 0; i < ROUNDS; i++) { \
			struct ibv_wc wc; \
			int got; \
			if (sets_len) \
				b->sge.length = 8 + i; \
			TRY(c##_send(e, by_turns && i % 2 ? e->other : e->qp, b, opcode, -1)); \
			got = ibv_poll_cq(e->cq, 1, &wc); \
			if (UNLIKELY(got <= 0 || wc.status)) \
				return failed(&wc, NULL, got); \
			TAKE_##c(b, &wc) \
		} \
		return 0; \
	} \
	int c##_loop_write(struct env *e) { return c##_one_by_one(e, IBV_WR_RDMA_WRITE, 0, 0); } \
	int c##_full(struct env *e) \
	{ \
		struct ibv_qp *deep = e->qp; \
		int ret; \
		e->qp = e->shallow; \
		FULL_##c(e, 1) \
		ret = c##_one_by_one(e, IBV_WR_RDMA_WRITE, 0, 0); \
		e->qp = deep; \
		return ret; \
	} \
	int c##_set_len(struct env *e) { return c##_one_by_one(e, IBV_WR_RDMA_WRITE, 1, 0); } \
	int c##_loop_faa(struct env *e) { return c##_one_by_one(e, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 0); } \
	int c##_two_queue_pairs(struct env *e) { return c##_one_by_one(e, IBV_WR_RDMA_WRITE, 0, 1); } \
	/* A stack of buffers that are not in use. */ \
	int c##_pool(struct env *e) \
	{ \
		struct buf **top = e->bufs + MOST; \
		int i; \
		for (i = 0; i < ROUNDS; i++) { \
			struct ibv_wc wc; \
			struct buf *b; \
			int got; \
			if (UNLIKELY(top == e->bufs)) \
				return failed(e, NULL, 0); \
			b = *--top; \
			b->sge.length = b->capacity; \
			TRY(c##_send(e, e->qp, b, IBV_WR_RDMA_WRITE, -1)); \
			got = ibv_poll_cq(e->cq, 1, &wc); \
			if (UNLIKELY(got <= 0 || wc.status)) \
				return failed(&wc, NULL, got); \
			TAKE_##c(b, &wc) \
			*top++ = b; \
		} \
		return 0; \
	} \
	int c##_readme(struct env *e) \
	{ \
		struct buf *b = e->bufs[0]; \
		int i, got; \
		for (i = 0; i < ROUNDS; i++) { \
			struct ibv_wc wc[BATCH], *at = wc; \
			TRY(c##_send(e, e->qp, b, IBV_WR_RDMA_WRITE, -1)); \
			got = ibv_poll_cq(e->cq, BATCH, wc); \
			if (UNLIKELY(got <= 0)) \
				return failed(wc, NULL, got); \
			do { \
				if (UNLIKELY(at->status)) \
					return failed(at, NULL, at->status); \
				TAKE_##c(b, at) \
			} while (at++, --got); \
		} \
		return 0; \
	} \
	/* What arrives is answered, to `peer` if that is one, or only looked at; what is sent receives again. */ \
	INLINE int c##_echoes(struct env *e, int is_shared, int answers, int is_ud) \
	{ \
		uint32_t sum = 0; \
		int i; \
		for (i = 0; i < ROUNDS; i++) { \
			struct ibv_wc wc[BATCH], *at = wc; \
			int got = ibv_poll_cq(e->cq, BATCH, wc); \
			if (UNLIKELY(got <= 0)) \
				return failed(wc, NULL, got); \
			do { \
				struct buf *b; \
				if (UNLIKELY(at->status)) \
					return failed(at, NULL, at->status); \
				TAKE_##c(b, at) \
				if (!answers && !is_ud) { \
					sum += at->byte_len; \
					TRY(c##_receive(e, is_shared, b)); \
				} else if (IS_RECEIVE_##c(at)) { \
					LENGTH_##c(b, at) \
					if (is_ud) { \
						if (b->sge.length > GRH_LEN) \
							sum += ((unsigned char *)(uintptr_t)b->sge.addr)[GRH_LEN]; \
						TRY(c##_receive(e, 0, b)); \
					} else { \
						TRY(c##_send(e, e->qp, b, IBV_WR_SEND, -1)); \
					} \
				} else if (is_ud) { \
					TRY(c##_send(e, e->qp, b, IBV_WR_SEND, i % 64)); \
				} else { \
					TRY(c##_receive(e, is_shared, b)); \
				} \
			} while (at++, --got); \
		} \
		if (!answers) \
			seen = sum; \
		return 0; \
	} \
	int c##_echo(struct env *e) { return c##_echoes(e, 0, 1, 0); } \
	int c##_shared(struct env *e) { return c##_echoes(e, 1, 0, 0); } \
	int c##_shared_answer(struct env *e) { return c##_echoes(e, 1, 1, 0); } \
	int c##_datagrams(struct env *e) { return c##_echoes(e, 0, 0, 1); } \
	INLINE int c##_prime(struct env *e, int n, int is_shared) \
	{ \
		int i; \
		for (i = 0; i < n; i++) \
			TRY(c##_receive(e, is_shared, e->bufs[i])); \
		return 0; \
	} \
	int c##_prime1(struct env *e) { return c##_prime(e, 1, 0); } \
	int c##_prime8(struct env *e) { return c##_prime(e, 8, 0); } \
	int c##_prime_shared1(struct env *e) { return c##_prime(e, 1, 1); } \
	int c##_prime_shared8(struct env *e) { return c##_prime(e, 8, 1); } \
	int c##_prime_shared16(struct env *e) { return c##_prime(e, 16, 1); } \
	int c##_prime_datagrams(struct env *e) \
	{ \
		TRY(c##_receive(e, 0, e->bufs[0])); \
		return c##_send(e, e->qp, e->bufs[1], IBV_WR_SEND, 0); \
	} \
	/* A chain of four, of which the last completes: the wr_id is that of all. */ \
	int c##_loop_chain4(struct env *e) \
	{ \
		struct buf **b = e->bufs; \
		int r; \
		for (r = 0; r < ROUNDS; r++) { \
			struct ibv_send_wr wr[4], *bad; \
			struct ibv_sge sge[4]; \
			struct ibv_wc wc; \
			int ret, got; \
			ROOM_##c(&e->send, 4) \
			_Pragma("GCC unroll 4") \
			for (int i = 0; i < 4; i++) { \
				PD_##c(&e->send, b[i]) \
				BOUND_##c(e, b[i]) \
				sge[i] = b[i]->sge; \
				emit_write(&wr[i], &sge[i], e); \
				wr[i].wr_id = (uintptr_t)b; \
				wr[i].next = i < 3 ? &wr[i + 1] : NULL; \
			} \
			wr[3].send_flags = IBV_SEND_SIGNALED; \
			NO_BAD_##c(bad) \
			ret = ibv_post_send(e->qp, wr, &bad); \
			if (UNLIKELY(ret)) \
				return failed(wr, bad, ret); \
			got = ibv_poll_cq(e->cq, 1, &wc); \
			if (UNLIKELY(got <= 0 || wc.status)) \
				return failed(&wc, NULL, got); \
			b = (struct buf **)(uintptr_t)wc.wr_id; \
			DONE_##c(&e->send, 4) \
		} \
		return 0; \
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

/* Room that came back is looked for when there is none. */
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

TWINS(c0)
TWINS(c2)
