/* A WRITE of pieces of a region, alone or behind a header, and its completion. The offsets are known only at run time, and C
 * writes an element for each piece. C2 also checks the end of the region, and the protection domain of each piece. */
#include "life.h"

#define RANGE_c0(e, from, len)
#define RANGE_c2(e, from, len) \
	if (UNLIKELY((from) > (e)->pieces[0].length || (len) > (e)->pieces[0].length - (from))) \
		return failed(e, NULL, EINVAL);
#define WITHIN_c0(e, all)
#define WITHIN_c2(e, all) \
	if (UNLIKELY((all) > (e)->to.len)) \
		return failed(e, NULL, EINVAL);
#define GIVE_c0(q, b)
#define GIVE_c2(q, b) (b)->counter = &(q)->completed;

#define TWINS(c) \
	/* A header, if there is one, and pieces of the region, up to n elements. */ \
	INLINE int c##_gathered(struct env *e, int n, int has_header) \
	{ \
		struct ibv_send_wr wr, *bad; \
		struct ibv_sge sge[16]; \
		struct ibv_wc wc; \
		struct buf *b; \
		uint32_t all = 0; \
		int i, got, ret; \
		ROOM_##c(&e->send, 1) \
		_Pragma("GCC unroll 16") \
		for (i = 0; i < n; i++) { \
			b = e->bufs[i]; \
			PD_##c(&e->send, b) \
			if (i < has_header) { \
				sge[i] = b->sge; \
			} else { \
				uint64_t from = e->ids[i], len = e->lengths[0]; \
				RANGE_##c(e, from, len) \
				sge[i].addr = e->pieces[0].addr + from; \
				sge[i].length = len; \
				sge[i].lkey = e->pieces[0].lkey; \
			} \
			all += sge[i].length; \
		} \
		WITHIN_##c(e, all) \
		b = e->bufs[0]; \
		GIVE_##c(&e->send, b) \
		emit_write(&wr, sge, e); \
		wr.num_sge = n; \
		/* If READs may target memory that the processor cannot access, each work request is signaled (R18.18). */ \
		wr.send_flags = IBV_SEND_SIGNALED; \
		wr.wr_id = (uintptr_t)b; \
		wr.next = NULL; \
		NO_BAD_##c(bad) \
		ret = ibv_post_send(e->qp, &wr, &bad); \
		if (UNLIKELY(ret)) \
			return failed(&wr, bad, ret); \
		got = ibv_poll_cq(e->cq, 1, &wc); \
		if (UNLIKELY(got <= 0 || wc.status)) \
			return failed(&wc, NULL, got); \
		TAKE_##c(b, &wc) \
		return UNLIKELY(!b); \
	} \
	int c##_one(struct env *e) { return c##_gathered(e, 1, 0); } \
	int c##_header(struct env *e) { return c##_gathered(e, 2, 1); } \
	int c##_list16(struct env *e) { return c##_gathered(e, 16, 0); }

TWINS(c0)
TWINS(c2)
