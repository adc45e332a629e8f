/* The safe rows of receiving and polling in C. Included after safe.h. */

#if !SELECTIVE
#define FILL(i) \
	b[i] = e->bufs[i]; \
	see(&seen, &e->recv, b[i], MODE, 0); \
	sge[i] = b[i]->sge; \
	wr[i].sg_list = &sge[i]; \
	wr[i].num_sge = 1; \
	wr[i].wr_id = wr_id(&e->recv, i, b[i], MODE == 2 ? RECEIVED : 0, MODE, 0); \
	wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;

#define NOTE(i) enter(&e->recv, i, b[i], MODE, 0);

/* Posts receives that have been accounted for. */
INLINE int post_receives(struct env *e, struct ibv_recv_wr *wr, uint32_t n)
{
	struct ibv_recv_wr *bad;
	int ret;

	if (MODE == 2)
		bad = NULL;
	ret = ibv_post_recv(e->qp, wr, &bad);
	if (UNLIKELY(ret))
		return MODE == 2 ? take_back(&e->recv, n, bad, ret) : failed(wr, bad, ret);
	return 0;
}

#define RECEIVES(n) \
	int FORM(recv##n)(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_recv_wr wr[n]; \
		struct buf *b[n]; \
		struct seen seen = { 0, 0 }; \
		TIMES_##n(FILL) \
		if (MODE == 2 && UNLIKELY(is_strange(&seen, &e->recv, MODE) || \
					  !has_room(&e->recv, n, MODE, 0))) \
			return recv_slowly(e, wr, n, 0); \
		if (MODE == 1 && UNLIKELY(!has_room(&e->recv, n, MODE, 0))) \
			return refused(e); \
		TIMES_##n(NOTE) \
		spend(&e->recv, n, MODE, 0); \
		return post_receives(e, wr, n); \
	}
RECEIVES(1)
RECEIVES(16)

/* The number of the pool's buffers limits a shared receive queue, so C2 does not count. */
#define SHARED(n) \
	int FORM(srq##n)(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_recv_wr wr[n], *bad; \
		struct buf *b[n]; \
		struct seen seen = { 0, 0 }; \
		int ret; \
		TIMES_##n(FILL) \
		if (MODE == 2 && UNLIKELY(is_strange(&seen, &e->recv, MODE))) \
			return recv_slowly(e, wr, n, 1); \
		if (MODE == 1 && UNLIKELY(!has_room(&e->recv, n, MODE, 0))) \
			return refused(e); \
		TIMES_##n(NOTE) \
		if (MODE == 1) \
			spend(&e->recv, n, MODE, 0); \
		if (MODE == 2) \
			bad = NULL; \
		ret = ibv_post_srq_recv(e->srq, wr, &bad); \
		if (UNLIKELY(ret)) \
			return MODE == 2 ? take_back(&e->recv, 0, bad, ret) : failed(wr, bad, ret); \
		return 0; \
	}
SHARED(1)
SHARED(16)

/* A count that is known at run time. */
INLINE int receives(struct env *e, uint32_t count)
{
	struct queue *q = &e->recv, copy = *q;
	const struct queue *books = BOOKS(q, copy, MODE, 0);
	struct ibv_sge sge[16];
	struct ibv_recv_wr wr[16], *at = wr;
	uint32_t i, n = count < 16 ? count : 16;
	struct seen seen = { 0, 1 };

	if (n == 0)
		return 0;
	if (MODE == 1 && UNLIKELY(!has_room(q, n, MODE, 0)))
		return refused(e);
	for (i = 0; i < n; i++, at++) {
		struct buf *b = e->bufs[i];

		see(&seen, q, b, MODE, 0);
		sge[i] = b->sge;
		at->sg_list = &sge[i];
		at->num_sge = 1;
		at->wr_id = wr_id_at(books, books->tail + i, b, MODE == 2 ? RECEIVED : 0, MODE, 0);
		at->next = at + 1;
		enter_at(books, books->tail + i, b, MODE, 0);
	}
	at[-1].next = NULL;
	if (MODE == 2 && UNLIKELY(is_strange(&seen, q, MODE) || !has_room(q, n, MODE, 0)))
		return recv_slowly(e, wr, n, 0);
	spend(q, n, MODE, 0);
	return post_receives(e, wr, n);
}

#define COUNTED_RECEIVES(name, i) \
	int FORM(name)(struct env *e) \
	{ \
		return receives(e, e->counts[i]); \
	}
COUNTED_RECEIVES(recv_iter1of16, 0)
COUNTED_RECEIVES(recv_iter4of16, 1)
COUNTED_RECEIVES(recv_iter16of16, 2)

/* Like `builder` for sends. */
struct recv_builder {
	struct ibv_recv_wr *wr, *at;
	struct ibv_sge *sge;
	uint32_t n, most;
	uint32_t mark;
	const struct queue *books;
};

INLINE struct recv_builder begin_receives(const struct queue *books, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
	uint32_t room = room_of(books, MODE, 0);
	struct recv_builder list = { wr, wr, sge, 0, room < 16 ? room : 16, books->mark, books };

	return list;
}

INLINE int push_receive(struct env *e, struct recv_builder *list, struct buf *b)
{
	struct queue *q = &e->recv;
	struct ibv_recv_wr *at = list->at;

	if (MODE && UNLIKELY(list->n == list->most)) {
		list->most = MODE == 2 ? more_room(q, list->n, 16, 0) : list->n;
		if (list->n == list->most)
			return ENOMEM;
	}
	if (MODE == 2 && UNLIKELY(b->state != list->mark) && !settle(q, RECEIVE, b))
		return EINVAL;
	if (MODE == 2)
		b->state = list->mark | IN_FLIGHT;
	*list->sge = b->sge;
	at->sg_list = list->sge;
	at->num_sge = 1;
	at->wr_id = wr_id_at(list->books, list->books->tail + list->n, b, MODE == 2 ? RECEIVED : 0, MODE, 0);
	at->next = at + 1;
	enter_at(list->books, list->books->tail + list->n, b, MODE, 0);
	list->at++;
	list->sge++;
	list->n++;
	return 0;
}

INLINE int pushed_receives(struct env *e, uint32_t count)
{
	struct ibv_sge sge[16];
	struct ibv_recv_wr wr[16];
	struct queue copy = e->recv;
	struct recv_builder list = begin_receives(BOOKS(&e->recv, copy, MODE, 0), wr, sge);
	uint32_t i, n = count < 16 ? count : 16;

	for (i = 0; i < n; i++) {
		int ret = push_receive(e, &list, e->bufs[i]);

		if (UNLIKELY(ret))
			return receives_given_up(list.wr, list.n, ret);
	}
	if (list.n == 0)
		return 0;
	list.at[-1].next = NULL;
	spend(&e->recv, list.n, MODE, 0);
	return post_receives(e, list.wr, list.n);
}

#define PUSHED_RECEIVES(name, i) \
	int FORM(name)(struct env *e) \
	{ \
		return pushed_receives(e, e->counts[i]); \
	}
PUSHED_RECEIVES(recv_push1of16, 0)
PUSHED_RECEIVES(recv_push4of16, 1)
PUSHED_RECEIVES(recv_push16of16, 2)
#endif

/* A completion returns its buffer (with a ring, all buffers up to its own) to `to`. */
INLINE int take(struct env *e, const struct ibv_wc *wc, struct buf ***to)
{
	struct queue *q = &e->send;
	struct buf *b;

	if (UNLIKELY(wc->status != IBV_WC_SUCCESS))
		return failed(wc, NULL, wc->status);
	if (HAS_RING(MODE, SELECTIVE)) {
		uint32_t at = q->head, end;

		if (MODE == 2) {
			/* With equal ids, the difference has only the distance of the sequence numbers. */
			uint64_t ahead = wc->wr_id - name(&q->old_id);

			ahead = ahead << 32 | ahead >> 32;
			if (UNLIKELY(ahead >= q->tail - q->head))
				return failed(wc, NULL, EINVAL);
			end = q->head + (uint32_t)ahead + 1;
		} else {
			end = (uint32_t)wc->wr_id + 1;
		}
		q->head = end;
		b = q->slots[at & q->mask];
		if (b)
			*(*to)++ = b;
		/* Usually there is only one. */
		if (++at != end) {
			/* Copies of fields that the compiler would otherwise reload after each store of a buffer. */
			struct buf **slots = q->slots, **out = *to;
			uint32_t mask = q->mask;

			do {
				b = slots[at & mask];
				if (b)
					*out++ = b;
			} while (++at != end);
			*to = out;
		}
		return 0;
	}
	if (MODE == 2) {
		if (UNLIKELY(wc->wr_id & NO_BUFFER)) {
			++*(uint32_t *)(uintptr_t)(wc->wr_id & ~(uint64_t)TAGS);
			return 0;
		}
		b = (struct buf *)(uintptr_t)(wc->wr_id & ~(uint64_t)TAGS);
		b->state &= ~IN_FLIGHT;
		++*b->counter;
	} else {
		b = (struct buf *)(uintptr_t)wc->wr_id;
		if (SELECTIVE) {
			/* Without bookkeeping, the owner of the buffer and the other completed buffers are unknown. */
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

#if SELECTIVE
/* One completion for sixteen work requests. */
int FORM(release16)(struct env *e)
{
	return poll(e, 1);
}
#endif

#define CYCLE(name, n, one, most) \
	int FORM(name)(struct env *e) \
	{ \
		LIST(n); \
		int ret; \
		TIMES_##n(one) \
		ret = post(e, wr, b, n, &seen); \
		return UNLIKELY(ret) ? ret : poll(e, most); \
	}
CYCLE(cycle, 1, WRITE, 1)
CYCLE(cycle4, 4, WRITE, 16)
