/* The safe rows in C, once for each kind of bookkeeping, which PREFIX, MODE and SELECTIVE select. */
#include "books.h"
#include "env.h"
#include "fields.h"
#include "repeat.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FORM(name) PASTE(PREFIX, name)
#define LAST (SELECTIVE ? IBV_SEND_SIGNALED : 0)

/* Posts work requests that have been accounted for. */
INLINE int doorbell(struct env *e, struct ibv_send_wr *wr, uint32_t n)
{
	struct ibv_send_wr *bad;
	int ret;

	if (MODE == 2)
		bad = NULL;
	ret = ibv_post_send(e->qp, wr, &bad);
	if (UNLIKELY(ret))
		return MODE == 2 ? take_back(&e->send, n, bad, ret) : failed(wr, bad, ret);
	return 0;
}

/* Accounts for the finished list wr of n with the buffers b, and posts it. */
INLINE int post(struct env *e, struct ibv_send_wr *wr, struct buf *const *b, uint32_t n,
		const struct seen *seen)
{
	struct queue *q = &e->send;
	uint32_t i;

	wr[n - 1].next = NULL;
	wr[n - 1].send_flags |= LAST;
	if (MODE == 2) {
#pragma GCC unroll 32
		for (i = 0; i < n; i++)
			enter(q, i, b[i], MODE, SELECTIVE);
		if (UNLIKELY(is_strange(seen, q, MODE)))
			return send_slowly(e, wr, n, SELECTIVE);
		if (UNLIKELY(!has_room(q, n, MODE, SELECTIVE)))
			return send_again(e, wr, n, SELECTIVE);
	} else {
		if (UNLIKELY(!has_room(q, n, MODE, SELECTIVE)))
			return refused(e);
#pragma GCC unroll 32
		for (i = 0; i < n; i++)
			enter(q, i, b[i], MODE, SELECTIVE);
	}
	spend(q, n, MODE, SELECTIVE);
	return doorbell(e, wr, n);
}

/* The i-th work request of a list: its buffer, or bytes. */
#define DATA(i) \
	b[i] = e->bufs[i]; \
	see(&seen, &e->send, b[i], MODE, SELECTIVE); \
	sge[i] = b[i]->sge;
#define BYTES(i) \
	b[i] = NULL; \
	payload(&sge[i], e);
/* A WRITE ends where the remote slice does. */
#define BOUND(i, bytes) \
	if (MODE == 2 && UNLIKELY((bytes) > e->to.len)) \
		return given_up(e, wr, i, SELECTIVE, EINVAL);
#define WRITTEN(i) BOUND(i, e->bufs[i]->sge.length) DATA(i)
#define WRITTEN_BYTES(i) BOUND(i, PAYLOAD) BYTES(i)
/* A READ transfers the whole slice. */
#define READ(i) \
	if (MODE == 2 && UNLIKELY(e->from.len > e->bufs[i]->capacity)) \
		return given_up(e, wr, i, SELECTIVE, EINVAL); \
	DATA(i) \
	if (MODE == 2) \
		sge[i].length = b[i]->sge.length = e->from.len;
#define NAME(i) \
	wr[i].wr_id = wr_id(&e->send, i, b[i], 0, MODE, SELECTIVE); \
	wr[i].next = &wr[i + 1];

#define LIST(n) \
	struct ibv_sge sge[n]; \
	struct ibv_send_wr wr[n]; \
	struct buf *b[n]; \
	struct seen seen = { 0, 0 }

#define ONE(name, data) \
	int FORM(name)(struct env *e) \
	{ \
		LIST(1); \
		data(0) \
		emit_##name(wr, sge, e); \
		NAME(0) \
		return post(e, wr, b, 1, &seen); \
	}

ONE(send, DATA)
ONE(send_imm, DATA)
ONE(write, WRITTEN)
ONE(write_imm, WRITTEN)
ONE(read, READ)
ONE(inline_send, BYTES)
ONE(inline_write, WRITTEN_BYTES)

/* The result of an atomic has 8 bytes, whatever the buffer's length. */
#define RESULT(i) DATA(i) sge[i].length = 8;
ONE(cas, RESULT)
ONE(faa, RESULT)

/* The address handle has a name, which may have been removed. */
INLINE int is_named(const struct env *e)
{
	return MODE != 2 || LIKELY(e->ah_keys[e->to_ah.index & e->ah_mask] == e->to_ah.key);
}

int FORM(ud_send)(struct env *e)
{
	LIST(1);

	if (UNLIKELY(!is_named(e)))
		return refused(e);
	DATA(0)
	emit_ud_send(wr, sge, e);
	NAME(0)
	return post(e, wr, b, 1, &seen);
}

#define WRITE(i) WRITTEN(i) emit_write(&wr[i], &sge[i], e); NAME(i)
#define CHAIN(n) \
	int FORM(chain##n)(struct env *e) \
	{ \
		LIST(n); \
		TIMES_##n(WRITE) \
		return post(e, wr, b, n, &seen); \
	}
CHAIN(2)
CHAIN(4)
CHAIN(8)
CHAIN(16)
CHAIN(32)

#if SELECTIVE
/* Each work request is signaled. */
#define SIGNALED(i) WRITE(i) wr[i].send_flags |= IBV_SEND_SIGNALED;
int FORM(signaled16)(struct env *e)
{
	LIST(16);
	TIMES_16(SIGNALED)
	return post(e, wr, b, 16, &seen);
}
#endif

int FORM(mixed4)(struct env *e)
{
	LIST(4);

	WRITE(0)
	BYTES(1)
	emit_inline_send(&wr[1], &sge[1], e);
	NAME(1)
	READ(2)
	emit_read(&wr[2], &sge[2], e);
	NAME(2)
	RESULT(3)
	emit_faa(&wr[3], &sge[3], e);
	NAME(3)
	return post(e, wr, b, 4, &seen);
}

/* One work request with several buffers: the wr_id is the first, which links to the others. */
#define SHARE(i) \
	DATA(i) \
	bytes += sge[i].length; \
	b[i]->next = i + 1 < COUNT ? e->bufs[i + 1] : NULL;
#define GATHERED(n) \
	int FORM(sge##n)(struct env *e) \
	{ \
		enum { COUNT = n }; \
		/* It does not wrap: the slow path handles longer messages. */ \
		uint32_t bytes = 0; \
		LIST(n); \
		TIMES_##n(SHARE) \
		if (MODE == 2 && UNLIKELY(bytes > e->to.len)) { \
			for (int i = 0; i < n; i++) \
				b[i]->state &= ~IN_FLIGHT; \
			return EINVAL; \
		} \
		emit_write(wr, sge, e); \
		wr[0].num_sge = n; \
		NAME(0) \
		return post(e, wr, b, 1, &seen); \
	}
GATHERED(2)
GATHERED(4)

/* A count that is known at run time. */
INLINE int list(struct env *e, uint32_t count)
{
	struct queue *q = &e->send, copy = *q;
	const struct queue *books = BOOKS(q, copy, MODE, SELECTIVE);
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16], *at = wr;
	uint32_t i, n = count < 16 ? count : 16;
	uint32_t seq = books->tail;
	uint64_t name = name_of(books);
	/* A subset of every mark, so that the first buffer needs no special case. */
	struct seen seen = { 0, 1 };

	if (n == 0)
		return 0;
	if (MODE == 1 && UNLIKELY(!has_room(q, n, MODE, SELECTIVE)))
		return refused(e);
	for (i = 0; i < n; i++, at++) {
		struct buf *b = e->bufs[i];

		BOUND(i, b->sge.length)
		see(&seen, q, b, MODE, SELECTIVE);
		sge[i] = b->sge;
		emit_write(at, &sge[i], e);
		at->wr_id = MODE == 2 && SELECTIVE ? name : wr_id_at(books, seq, b, 0, MODE, SELECTIVE);
		at->next = at + 1;
		enter_at(books, seq, b, MODE, SELECTIVE);
		seq++;
		name += NEXT_NAME;
	}
	at[-1].next = NULL;
	at[-1].send_flags |= LAST;
	if (MODE == 2 && UNLIKELY(is_strange(&seen, q, MODE)))
		return send_slowly(e, wr, n, SELECTIVE);
	if (MODE == 2 && UNLIKELY(!has_room(q, n, MODE, SELECTIVE)))
		return send_again(e, wr, n, SELECTIVE);
	spend(q, n, MODE, SELECTIVE);
	return doorbell(e, wr, n);
}

/* The count is known before the first work request: the iterator's rows. */
#define COUNTED(name, i) \
	int FORM(name)(struct env *e) \
	{ \
		return list(e, e->counts[i]); \
	}
COUNTED(iter1of16, 0)
COUNTED(iter4of16, 1)
COUNTED(iter16of16, 2)

/* A list that grows by one work request at a time, and whose length is unknown before it is posted. */
struct builder {
	struct ibv_send_wr *wr, *at;
	struct ibv_sge *sge;
	/* The number pushed so far, and the number known to fit into the slots and the queue. */
	uint32_t n, most;
	/* Copies of the queue's fields, so that they are not read again each time. */
	uint32_t mark;
	const struct queue *books;
};

INLINE struct builder begin(const struct queue *books, struct ibv_send_wr *wr, struct ibv_sge *sge)
{
	uint32_t room = room_of(books, MODE, SELECTIVE);
	struct builder list = { wr, wr, sge, 0, room < 16 ? room : 16, books->mark, books };

	return list;
}

/* Checks the buffer. If it does not fit, or is not valid, the caller keeps it, and the list does not change. C0 does not check,
 * C1 checks for room, C2 also checks whether the buffer was posted here last; if not, cold code inspects it. */
INLINE int push(struct env *e, struct builder *list, struct buf *b, uint64_t to, uint32_t rkey, uint32_t len)
{
	struct queue *q = &e->send;
	struct ibv_send_wr *at = list->at;

	if (MODE && UNLIKELY(list->n == list->most)) {
		list->most = MODE == 2 ? more_room(q, list->n, 16, SELECTIVE) : list->n;
		if (list->n == list->most)
			return ENOMEM;
	}
	if (MODE == 2 && UNLIKELY(b->sge.length > len))
		return EINVAL;
	if (MODE == 2 && UNLIKELY(b->state != list->mark) && !settle(q, SEND, b))
		return EINVAL;
	if (MODE == 2 && !SELECTIVE)
		b->state = list->mark | IN_FLIGHT;
	*list->sge = b->sge;
	head(at, list->sge, 1, IBV_WR_RDMA_WRITE, 0);
	at->wr.rdma.remote_addr = to;
	at->wr.rdma.rkey = rkey;
	at->wr_id = wr_id_at(list->books, list->books->tail + list->n, b, 0, MODE, SELECTIVE);
	at->next = at + 1;
	enter_at(list->books, list->books->tail + list->n, b, MODE, SELECTIVE);
	list->at++;
	list->sge++;
	list->n++;
	return 0;
}

/* Pushed work requests fit, and were checked. */
INLINE int post_pushed(struct env *e, struct builder *list)
{
	if (list->n == 0)
		return 0;
	list->at[-1].next = NULL;
	list->at[-1].send_flags |= LAST;
	spend(&e->send, list->n, MODE, SELECTIVE);
	return doorbell(e, list->wr, list->n);
}

INLINE int pushed(struct env *e, uint32_t count)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];
	struct queue copy = e->send;
	struct builder list = begin(BOOKS(&e->send, copy, MODE, SELECTIVE), wr, sge);
	/* The program's own value, which the loop's calls do not change. */
	uint64_t to = e->to.addr;
	uint32_t rkey = e->to.rkey, len = e->to.len;
	uint32_t i, n = count < 16 ? count : 16;

	for (i = 0; i < n; i++) {
		int ret = push(e, &list, e->bufs[i], to, rkey, len);

		if (UNLIKELY(ret))
			return given_up(e, list.wr, list.n, SELECTIVE, ret);
	}
	return post_pushed(e, &list);
}

#define PUSHED(name, i) \
	int FORM(name)(struct env *e) \
	{ \
		return pushed(e, e->counts[i]); \
	}
PUSHED(push1of16, 0)
PUSHED(push4of16, 1)
PUSHED(push16of16, 2)
