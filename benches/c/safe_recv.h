/* The safe rows of receiving and polling in C. Included after safe.h. */

#if !SELECTIVE
#define FILL(i) \
	b[i] = e->bufs[i]; \
	fault |= attach(&e->recv, b[i], MODE); \
	sge[i] = b[i]->sge; \
	wr[i].sg_list = &sge[i]; \
	wr[i].num_sge = 1; \
	wr[i].wr_id = wr_id(&e->recv, i, b[i], MODE == 2, MODE, 0); \
	wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;

#define BOOK(i) commit(&e->recv, i, b[i], MODE, 0);

#define RECEIVES(name, n, verb, queue) \
	int FORM(name)(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_recv_wr wr[n], *bad; \
		struct buf *b[n]; \
		int ret, fault = 0; \
		TIMES_##n(FILL) \
		if (MODE == 2 && UNLIKELY(fault)) \
			return refused(e); \
		if (MODE && UNLIKELY(!has_room(&e->recv, RECEIVE, n, MODE, 0))) \
			return refused(e); \
		TIMES_##n(BOOK) \
		spend(&e->recv, n, MODE, 0); \
		if (MODE == 2) \
			bad = NULL; \
		ret = verb(e->queue, wr, &bad); \
		if (UNLIKELY(ret)) \
			return MODE == 2 ? take_back(&e->recv, n, bad, ret) : failed(wr, bad, ret); \
		return 0; \
	}
RECEIVES(recv1, 1, ibv_post_recv, qp)
RECEIVES(recv16, 16, ibv_post_recv, qp)
RECEIVES(srq1, 1, ibv_post_srq_recv, srq)
RECEIVES(srq16, 16, ibv_post_srq_recv, srq)
#endif

/* A completion gives back its buffer (all up to its own, from a ring) to `to`. */
INLINE int take(struct env *e, const struct ibv_wc *wc, struct buf ***to)
{
	struct queue *q = &e->send;
	struct buf *b;

	if (UNLIKELY(wc->status != IBV_WC_SUCCESS))
		return failed(wc, NULL, wc->status);
	if (HAS_RING(MODE, SELECTIVE)) {
		uint32_t seq = wc->wr_id;

		if (MODE == 2 && UNLIKELY((wc->wr_id & ~0xffffffffull) != q->id))
			return failed(wc, NULL, EINVAL);
		if (MODE == 2 && UNLIKELY(seq - q->head >= q->tail - q->head))
			return failed(wc, NULL, EINVAL);
		do {
			b = q->slots[q->head++ & q->mask];
			if (b)
				*(*to)++ = b;
		} while (q->head != seq + 1);
		return 0;
	}
	if (MODE == 2) {
		if (UNLIKELY((wc->wr_id & 28) == 28)) {
			q = (struct queue *)(uintptr_t)(wc->wr_id & ~63ull);
			q->completed[wc->wr_id & 1]++;
			return 0;
		}
		b = (struct buf *)(uintptr_t)(wc->wr_id & ~63ull);
		b->in_flight = 0;
		b->queue->completed[wc->wr_id & 1]++;
	} else {
		b = (struct buf *)(uintptr_t)wc->wr_id;
		if (SELECTIVE) {
			/* Without books nobody knows where it belongs, nor what else is done. */
			e->wr_id = (uintptr_t)b;
			return 0;
		}
	}
	*(*to)++ = b;
	return 0;
}

INLINE int poll(struct env *e, int n)
{
	struct ibv_wc wc[BATCH], *at = wc;
	struct buf **to = e->bufs;
	int ret, got = ibv_poll_cq(e->cq, n, wc);

	if (UNLIKELY(got <= 0))
		return got ? failed(wc, NULL, got) : 0;
	if (n == 1)
		return take(e, wc, &to);
	do {
		ret = take(e, at++, &to);
		if (UNLIKELY(ret))
			return ret;
	} while (--got);
	return 0;
}

int FORM(poll1)(struct env *e)
{
	return poll(e, 1);
}

int FORM(poll16)(struct env *e)
{
	return poll(e, 16);
}

#define CYCLE(name, n, one, most) \
	int FORM(name)(struct env *e) \
	{ \
		LIST(n); \
		int ret; \
		TIMES_##n(one) \
		ret = post(e, wr, b, n, fault); \
		return UNLIKELY(ret) ? ret : poll(e, most); \
	}
CYCLE(cycle, 1, WRITE, 1)
CYCLE(cycle4, 4, WRITE, 16)
