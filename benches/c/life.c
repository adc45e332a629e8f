/* Loops of realistic programs in the steady state: receive and reply, one buffer on several queues. */
#include "life.h"

enum { GRH_LEN = 40 };

/* Stands for a program that reads the message. */
static volatile uint32_t seen;

enum { CLASSES = 11 };

/* The class of a buffer for `len` bytes: 64, 128, 256 and so on. */
INLINE unsigned int size_class(uint32_t len)
{
	return 31 - (unsigned int)__builtin_clz((len - 1) >> 5 | 1);
}

#define TWINS(c) \
	POSTS(c) \
	/* One after the other, on `e->qp`, or in turn. */ \
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
	/* A stack of free buffers. */ \
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
	/* A stack of free buffers for each power of two. The length is known at run time. */ \
	int c##_from_arena(struct env *e) \
	{ \
		struct buf *one = e->in_arena, **top[CLASSES], **base[CLASSES]; \
		int i; \
		for (i = 0; i < CLASSES; i++) \
			top[i] = base[i] = &one; \
		top[0]++; \
		for (i = 0; i < ROUNDS; i++) { \
			uint32_t len = (uint32_t)e->lengths[0]; \
			unsigned int class = size_class(len); \
			struct ibv_wc wc; \
			struct buf *b; \
			int got; \
			if (UNLIKELY(class >= CLASSES || top[class] == base[class])) \
				return failed(e, NULL, 0); \
			b = *--top[class]; \
			b->sge.length = len; \
			*(volatile uint64_t *)(uintptr_t)b->sge.addr = i; \
			TRY(c##_send(e, e->qp, b, IBV_WR_RDMA_WRITE, -1)); \
			got = ibv_poll_cq(e->cq, 1, &wc); \
			if (UNLIKELY(got <= 0 || wc.status)) \
				return failed(&wc, NULL, got); \
			TAKE_##c(b, &wc) \
			*top[size_class(b->capacity)]++ = b; \
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
	/* Replies to each message, to `peer` if there is one, or only reads it. Sent buffers are posted as receives again. */ \
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
	int c##_prime_shared16(struct env *e) { return c##_prime(e, 16, 1); } \
	int c##_prime_datagrams(struct env *e) \
	{ \
		TRY(c##_receive(e, 0, e->bufs[0])); \
		return c##_send(e, e->qp, e->bufs[1], IBV_WR_SEND, 0); \
	} \
	/* A chain of four, of which the last is signaled. They share its wr_id. */ \
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

TWINS(c0)
TWINS(c2)
