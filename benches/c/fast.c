/* Bookkeeping by the caller, in the fastest C that we can write: field by field, unrolled, gather elements copied. */
#include "env.h"
#include "fields.h"
#include "repeat.h"

INLINE int post(struct env *e, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret = ibv_post_send(e->qp, wr, &bad);

	if (UNLIKELY(ret))
		return failed(wr, bad, ret);
	return 0;
}

#define ONE(name, data) \
	int fast_##name(struct env *e) \
	{ \
		struct ibv_sge sge; \
		struct ibv_send_wr wr; \
		data; \
		emit_##name(&wr, &sge, e); \
		wr.wr_id = e->ids[0]; \
		wr.next = NULL; \
		return post(e, &wr); \
	}
#define PIECE sge = e->pieces[0]

ONE(send, PIECE)
ONE(send_imm, PIECE)
ONE(write, PIECE)
ONE(write_imm, PIECE)
ONE(read, PIECE)
ONE(cas, PIECE)
ONE(faa, PIECE)
ONE(ud_send, PIECE)
ONE(inline_send, PIECE)
ONE(inline_write, PIECE)

#define GATHERED(n) \
	int fast_sge##n(struct env *e) \
	{ \
		struct ibv_sge sge[n]; \
		struct ibv_send_wr wr; \
		TIMES_##n(COPY) \
		emit_write(&wr, sge, e); \
		wr.num_sge = n; \
		wr.wr_id = e->ids[0]; \
		wr.next = NULL; \
		return post(e, &wr); \
	}
#define COPY(i) sge[i] = e->pieces[i];
GATHERED(2)
GATHERED(4)

#define LINK(i) wr[i].next = i + 1 < COUNT ? &wr[i + 1] : NULL;
#define WRITE(i) \
	COPY(i) \
	emit_write(&wr[i], &sge[i], e); \
	wr[i].wr_id = e->ids[i]; \
	LINK(i)
#define RECV(i) \
	COPY(i) \
	wr[i].sg_list = &sge[i]; \
	wr[i].num_sge = 1; \
	wr[i].wr_id = e->ids[i]; \
	LINK(i)

#define CHAIN(n) \
	int fast_chain##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_send_wr wr[n]; \
		TIMES_##n(WRITE) \
		return post(e, wr); \
	}
CHAIN(2)
CHAIN(4)
CHAIN(8)
CHAIN(16)
CHAIN(32)

int fast_mixed4(struct env *e)
{
	enum { COUNT = 4 };
	struct ibv_sge sge[4];
	struct ibv_send_wr wr[4];

	COPY(0)
	emit_write(&wr[0], &sge[0], e);
	wr[0].wr_id = e->ids[0];
	LINK(0)
	COPY(1)
	emit_inline_send(&wr[1], &sge[1], e);
	wr[1].wr_id = e->ids[1];
	LINK(1)
	COPY(2)
	emit_read(&wr[2], &sge[2], e);
	wr[2].wr_id = e->ids[2];
	LINK(2)
	COPY(3)
	emit_faa(&wr[3], &sge[3], e);
	wr[3].wr_id = e->ids[3];
	LINK(3)
	return post(e, wr);
}

INLINE int list(struct env *e, uint32_t count)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];
	struct ibv_send_wr *at = wr;
	uint32_t i, n = count < 16 ? count : 16;

	if (n == 0)
		return 0;
	for (i = 0; i < n; i++, at++) {
		COPY(i)
		emit_write(at, &sge[i], e);
		at->wr_id = e->ids[i];
		at->next = at + 1;
	}
	at[-1].next = NULL;
	return post(e, wr);
}

/* A number of WRITEs known at run time, the last one with immediate data. */
int fast_kinds4of16(struct env *e)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];
	struct ibv_send_wr *at = wr;
	uint32_t i, n = e->counts[1] < 16 ? e->counts[1] : 16;

	if (n == 0)
		return 0;
	for (i = 0; i < n - 1; i++, at++) {
		COPY(i)
		emit_write(at, &sge[i], e);
		at->wr_id = e->ids[i];
		at->next = at + 1;
	}
	COPY(i)
	emit_write_imm(at, &sge[i], e);
	at->wr_id = e->ids[i];
	at->next = NULL;
	return post(e, wr);
}

/* A number of elements known at run time, in the program's own array. */
int fast_sges(struct env *e)
{
	struct ibv_send_wr wr;

	emit_write(&wr, e->pieces, e);
	wr.num_sge = e->counts[1];
	wr.wr_id = e->ids[0];
	wr.next = NULL;
	return post(e, &wr);
}

#define LIST(n, i) \
	int fast_list##n##of16(struct env *e) \
	{ \
		return list(e, e->counts[i]); \
	}
LIST(1, 0)
LIST(4, 1)
LIST(16, 2)

#define RECEIVES(n) \
	int fast_recv##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_recv_wr wr[n]; \
		struct ibv_recv_wr *bad; \
		int ret; \
		TIMES_##n(RECV) \
		ret = ibv_post_recv(e->qp, wr, &bad); \
		if (UNLIKELY(ret)) \
			return failed(wr, bad, ret); \
		return 0; \
	}
RECEIVES(1)
RECEIVES(16)

#define SHARED(n) \
	int fast_srq##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n]; \
		struct ibv_recv_wr wr[n]; \
		struct ibv_recv_wr *bad; \
		int ret; \
		TIMES_##n(RECV) \
		ret = ibv_post_srq_recv(e->srq, wr, &bad); \
		if (UNLIKELY(ret)) \
			return failed(wr, bad, ret); \
		return 0; \
	}
SHARED(1)
SHARED(16)

int fast_poll1(struct env *e)
{
	struct ibv_wc wc;
	int got = ibv_poll_cq(e->cq, 1, &wc);

	if (UNLIKELY(got <= 0))
		return got ? failed(&wc, NULL, got) : 0;
	if (UNLIKELY(wc.status != IBV_WC_SUCCESS))
		return failed(&wc, NULL, wc.status);
	e->ids[0] = wc.wr_id;
	return 0;
}

int fast_poll16(struct env *e)
{
	struct ibv_wc wc[16], *at = wc;
	uint64_t *id = e->ids;
	int got = ibv_poll_cq(e->cq, 16, wc);

	if (UNLIKELY(got <= 0))
		return got ? failed(wc, NULL, got) : 0;
	do {
		if (UNLIKELY(at->status != IBV_WC_SUCCESS))
			return failed(at, NULL, at->status);
		*id++ = at++->wr_id;
	} while (--got);
	return 0;
}

int fast_cycle(struct env *e)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	struct ibv_wc wc;
	int ret;

	PIECE;
	emit_write(&wr, &sge, e);
	wr.wr_id = e->ids[0];
	wr.next = NULL;
	ret = ibv_post_send(e->qp, &wr, &bad);
	if (UNLIKELY(ret))
		return failed(&wr, bad, ret);
	ret = ibv_poll_cq(e->cq, 1, &wc);
	if (UNLIKELY(ret <= 0))
		return ret ? failed(&wc, NULL, ret) : 0;
	if (UNLIKELY(wc.status != IBV_WC_SUCCESS))
		return failed(&wc, NULL, wc.status);
	e->ids[0] = wc.wr_id;
	return 0;
}
