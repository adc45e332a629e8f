/* The safe rows in C, once for each kind of books: PREFIX, MODE and SELECTIVE say which. */
#include "books.h"
#include "env.h"
#include "fields.h"
#include "repeat.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)
#define FORM(name) PASTE(PREFIX, name)
#define LAST (SELECTIVE ? IBV_SEND_SIGNALED : 0)

/* The list wr of n, whose buffers are b, is put together: book it, post it. */
INLINE int post(struct env *e, struct ibv_send_wr *wr, struct buf *const *b, uint32_t n, int fault)
{
	struct queue *q = &e->send;
	struct ibv_send_wr *bad;
	uint32_t i;
	int ret;

	wr[n - 1].next = NULL;
	wr[n - 1].send_flags |= LAST;
	if (MODE == 2 && UNLIKELY(fault))
		return refused(e);
	if (MODE && UNLIKELY(!has_room(q, SEND, n, MODE, SELECTIVE)))
		return refused(e);
#pragma GCC unroll 32
	for (i = 0; i < n; i++)
		commit(q, i, b[i], MODE, SELECTIVE);
	spend(q, n, MODE, SELECTIVE);
	if (MODE == 2)
		bad = NULL;
	ret = ibv_post_send(e->qp, wr, &bad);
	if (UNLIKELY(ret))
		return MODE == 2 ? take_back(q, n, bad, ret) : failed(wr, bad, ret);
	return 0;
}

/* The i-th work request of a list: its buffer, or bytes. */
#define DATA(i) \
	b[i] = e->bufs[i]; \
	fault |= attach(&e->send, b[i], MODE); \
	sge[i] = b[i]->sge;
#define BYTES(i) \
	b[i] = NULL; \
	payload(&sge[i], e);
#define NAME(i) \
	wr[i].wr_id = wr_id(&e->send, i, b[i], 0, MODE, SELECTIVE); \
	wr[i].next = &wr[i + 1];

#define LIST(n) \
	struct ibv_sge sge[n]; \
	struct ibv_send_wr wr[n]; \
	struct buf *b[n]; \
	int fault = 0

#define ONE(name, data) \
	int FORM(name)(struct env *e) \
	{ \
		LIST(1); \
		data(0) \
		emit_##name(wr, sge, e); \
		NAME(0) \
		return post(e, wr, b, 1, fault); \
	}

ONE(send, DATA)
ONE(send_imm, DATA)
ONE(write, DATA)
ONE(write_imm, DATA)
ONE(read, DATA)
ONE(inline_send, BYTES)
ONE(inline_write, BYTES)

/* The result of an atomic is 8 bytes, whatever the buffer holds. */
#define RESULT(i) DATA(i) sge[i].length = 8;
ONE(cas, RESULT)
ONE(faa, RESULT)

/* The address handle comes from the program's own variable: a table of them is part of C2 only by its lookup. */
ONE(ud_send, DATA)

#define WRITE(i) DATA(i) emit_write(&wr[i], &sge[i], e); NAME(i)
#define CHAIN(n) \
	int FORM(chain##n)(struct env *e) \
	{ \
		LIST(n); \
		TIMES_##n(WRITE) \
		return post(e, wr, b, n, fault); \
	}
CHAIN(2)
CHAIN(4)
CHAIN(8)
CHAIN(16)
CHAIN(32)

int FORM(mixed4)(struct env *e)
{
	LIST(4);

	WRITE(0)
	BYTES(1)
	emit_inline_send(&wr[1], &sge[1], e);
	NAME(1)
	DATA(2)
	emit_read(&wr[2], &sge[2], e);
	NAME(2)
	RESULT(3)
	emit_faa(&wr[3], &sge[3], e);
	NAME(3)
	return post(e, wr, b, 4, fault);
}

/* One work request with several buffers: the wr_id is the first, which leads to the others. */
#define SHARE(i) \
	b[i] = e->bufs[i]; \
	fault |= attach(&e->send, b[i], MODE); \
	b[i]->next = i + 1 < COUNT ? e->bufs[i + 1] : NULL; \
	sge[i] = b[i]->sge;
#define GATHERED(n) \
	int FORM(sge##n)(struct env *e) \
	{ \
		enum { COUNT = n }; \
		LIST(n); \
		TIMES_##n(SHARE) \
		emit_write(wr, sge, e); \
		wr[0].num_sge = n; \
		NAME(0) \
		return post(e, wr, b, 1, fault); \
	}
GATHERED(2)
GATHERED(4)

int FORM(list4of16)(struct env *e)
{
	struct queue *q = &e->send;
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16], *at = wr, *bad;
	uint32_t i, n = e->n < 16 ? e->n : 16;
	int ret;

	if (n == 0)
		return 0;
	if (MODE && UNLIKELY(!has_room(q, SEND, n, MODE, SELECTIVE)))
		return refused(e);
	for (i = 0; i < n; i++, at++) {
		struct buf *b = e->bufs[i];

		if (MODE == 2 && UNLIKELY(attach(q, b, MODE)))
			return refused(e);
		sge[i] = b->sge;
		emit_write(at, &sge[i], e);
		at->wr_id = wr_id(q, i, b, 0, MODE, SELECTIVE);
		at->next = at + 1;
		commit(q, i, b, MODE, SELECTIVE);
	}
	at[-1].next = NULL;
	at[-1].send_flags |= LAST;
	spend(q, n, MODE, SELECTIVE);
	if (MODE == 2)
		bad = NULL;
	ret = ibv_post_send(e->qp, wr, &bad);
	if (UNLIKELY(ret))
		return MODE == 2 ? take_back(q, n, bad, ret) : failed(wr, bad, ret);
	return 0;
}
