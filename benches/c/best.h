/* The loops of best.c, once for each form. */
#undef WRONG
#undef SPEND
#undef REFUND
#undef NO_BAD
#undef LEND
#undef HOME
#undef OWNED_BY
#undef END

#define WRONG(what) \
	if (CHECKS && UNLIKELY(what)) \
		return failed(e, NULL, EINVAL);
#define SPEND(end, way, n) WRONG((int32_t)((end)->credit[way] -= (n)) < 0)
#define REFUND(end, way, n) \
	if (CHECKS) \
		(end)->credit[way] += (n);
#define NO_BAD(bad) \
	if (CHECKS) \
		bad = NULL;
#define LEND(b) \
	if (LIVE) \
		(b)->pd = NOT_POSTED;
#define HOME(b) \
	if (LIVE) \
		(b)->pd = pd;
#if MANY
#define OWNED_BY(b, to) \
	if (CHECKS) \
		(b)->end = (to);
#define END(b) ((b)->end)
#else
#define OWNED_BY(b, to)
#define END(b) (e->ends)
#endif

INLINE int FORM(ring)(struct env *e, struct end *end, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int ret;

	(void)e;
	NO_BAD(bad)
	ret = ibv_post_send(end->qp, wr, &bad);
	return UNLIKELY(ret) ? failed(wr, bad, ret) : 0;
}

/* Posts a work request with one buffer. */
INLINE int FORM(post)(struct env *e, struct end *end, struct ibv_send_wr *wr, struct buf *b, uint32_t pd)
{
	WRONG(b->pd != pd)
	SPEND(end, SEND, 1)
	LEND(b)
	wr->wr_id = (uintptr_t)b;
	wr->sg_list = &b->sge;
	return FORM(ring)(e, end, wr);
}

/* Posts a receive of the whole buffer, to the shared receive queue or to the queue pair. */
INLINE int FORM(receive)(struct env *e, struct end *end, struct ibv_recv_wr *wr, struct buf *b, uint32_t pd, int is_shared)
{
	struct ibv_recv_wr *bad;
	int ret;

	WRONG(b->pd != pd)
	if (!is_shared)
		SPEND(end, RECEIVE, 1)
	LEND(b)
	wr->wr_id = (uintptr_t)b;
	wr->sg_list = &b->whole;
	NO_BAD(bad)
	ret = is_shared ? ibv_post_srq_recv(e->srq, wr, &bad) : ibv_post_recv(end->qp, wr, &bad);
	return UNLIKELY(ret) ? failed(wr, bad, ret) : 0;
}

#ifndef RECEIVE_OF
#define RECEIVE_OF(wr) \
	struct ibv_recv_wr wr; \
	wr.num_sge = 1; \
	wr.next = NULL;
#define SEND_OF(wr, emit) \
	struct ibv_send_wr wr; \
	emit(&wr, NULL, e); \
	wr.next = NULL;
#define BUF(wc) ((struct buf *)(uintptr_t)(wc)->wr_id)
#define POLL(wc, n) \
	int got = ibv_poll_cq(e->cq, n, wc); \
	if (UNLIKELY(got <= 0)) \
		return failed(wc, NULL, got);
#define POLL_ONE(wc) \
	struct ibv_wc wc; \
	POLL(&wc, 1) \
	if (UNLIKELY(wc.status)) \
		return failed(&wc, NULL, got);
/* For each completion of a poll. */
#define EACH(at) \
	struct ibv_wc wc[BATCH], *at = wc; \
	POLL(wc, BATCH) \
	do { \
		if (UNLIKELY(at->status)) \
			return failed(at, NULL, at->status);
#define NEXT(at) \
	} while (at++, --got)
/* The buffer of one completion. */
#define BACK(b) \
	{ \
		POLL_ONE(wc) \
		b = BUF(&wc); \
		HOME(b) \
		REFUND(END(b), SEND, 1) \
	}
#endif

/* One after the other, and on two queue pairs in turn. */
#define LOOP(name, emit, before) \
	int FORM(name)(struct env *e) \
	{ \
		struct buf *b = e->bufs[0]; \
		const uint32_t pd = e->ends->pd, most = e->to.len, asked = e->from.len; \
		SEND_OF(wr, emit) \
		(void)most, (void)asked; \
		for (uint32_t i = 0; i < ROUNDS; i += 1 + MANY) { \
			_Pragma("GCC unroll 2") \
			for (int k = 0; k <= MANY; k++) { \
				before \
				OWNED_BY(b, e->ends + k) \
				TRY(FORM(post)(e, e->ends + k, &wr, b, pd)); \
				BACK(b) \
			} \
		} \
		return 0; \
	}
LOOP(send, emit_send, )
LOOP(write, emit_write, WRONG(b->sge.length > most))
LOOP(set_len, emit_write, {
	uint32_t len = 8 + i + k;
	WRONG(len - 1 >= b->capacity)
	b->sge.length = len;
	WRONG(len > most)
})
LOOP(read, emit_read, {
	WRONG(asked > b->capacity)
	b->sge.length = asked;
})
LOOP(cas, emit_cas, b->sge.length = 8;)
LOOP(new_cas, emit_cas, {
	b->sge.length = 8;
	wr.wr.atomic.compare_add = i + k;
	wr.wr.atomic.swap = i + k + 1;
})
LOOP(faa, emit_faa, b->sge.length = 8;)

/* Bytes of the work request: no buffer comes back. */
int FORM(inline_send)(struct env *e)
{
	struct ibv_sge sge;
	SEND_OF(wr, emit_inline_send)

	payload(&sge, e);
	wr.sg_list = &sge;
	wr.wr_id = (uintptr_t)e->ends;
	for (int i = 0; i < ROUNDS; i++) {
		SPEND(e->ends, SEND, 1)
		TRY(FORM(ring)(e, e->ends, &wr));
		POLL_ONE(wc)
		REFUND(MANY ? (struct end *)(uintptr_t)wc.wr_id : e->ends, SEND, 1)
	}
	return 0;
}

/* A stack of free buffers. */
int FORM(pool)(struct env *e)
{
	struct buf *list = e->bufs[MOST - 1];
	const uint32_t pd = e->ends->pd, most = e->to.len;
	SEND_OF(wr, emit_write)

	for (int i = 0; i < ROUNDS; i++) {
		struct buf *b = list;

		if (UNLIKELY(!b))
			return failed(e, NULL, 0);
		list = b->next;
		b->sge.length = b->capacity;
		WRONG(b->sge.length > most)
		OWNED_BY(b, e->ends)
		TRY(FORM(post)(e, e->ends, &wr, b, pd));
		BACK(b)
		b->next = list;
		list = b;
	}
	return 0;
}

/* A stack for each number of lines. The length is known at run time. */
int FORM(from_arena)(struct env *e)
{
	struct buf *lists[LISTS];
	const uint32_t pd = e->ends->pd, most = e->to.len;
	SEND_OF(wr, emit_write)

	lists[0] = e->in_arena;
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t len = (uint32_t)e->lengths[0], list = (len - 1) / LINE;
		struct buf *b;

		if (UNLIKELY(list >= LISTS))
			return failed(e, NULL, 0);
		b = lists[list];
		if (UNLIKELY(!b))
			return failed(e, NULL, 0);
		lists[list] = b->next;
		b->sge.length = len;
		WRONG(len < 8)
		*(volatile uint64_t *)(uintptr_t)b->sge.addr = i;
		WRONG(len > most)
		OWNED_BY(b, e->ends)
		TRY(FORM(post)(e, e->ends, &wr, b, pd));
		BACK(b)
		b->next = lists[b->lines];
		lists[b->lines] = b;
	}
	return 0;
}

/* The buffers name their queue pairs from here on: they are replied to, and received again, where they came from. */
INLINE int FORM(prime)(struct env *e, int n, int is_shared)
{
	RECEIVE_OF(recv)

	for (int i = 0; i < n; i++) {
		e->bufs[i]->end = &e->ends[MANY && i % 2];
		TRY(FORM(receive)(e, e->bufs[i]->end, &recv, e->bufs[i], e->ends->pd, is_shared));
	}
	return 0;
}
int FORM(prime1)(struct env *e) { return FORM(prime)(e, 1, 0); }
int FORM(prime8)(struct env *e) { return FORM(prime)(e, 8, 0); }
int FORM(prime16)(struct env *e) { return FORM(prime)(e, 16, 0); }
int FORM(prime_shared16)(struct env *e) { return FORM(prime)(e, 16, 1); }

/* Replies to each message. Sent buffers are posted as receives again. */
int FORM(echo)(struct env *e)
{
	const uint32_t pd = e->ends->pd;
	SEND_OF(send, emit_send)
	RECEIVE_OF(recv)

	for (int i = 0; i < ROUNDS; i++) {
		EACH(at)
			struct buf *b = BUF(at);

			HOME(b)
			if (at->opcode & IBV_WC_RECV) {
				uint32_t len = at->byte_len;

				REFUND(END(b), RECEIVE, 1)
				WRONG(len - 1 >= b->capacity)
				b->sge.length = len;
				TRY(FORM(post)(e, END(b), &send, b, pd));
			} else {
				REFUND(END(b), SEND, 1)
				TRY(FORM(receive)(e, END(b), &recv, b, pd, 0));
			}
		NEXT(at);
	}
	return 0;
}

/* The same with one message in flight. */
int FORM(echo_one)(struct env *e)
{
	const uint32_t pd = e->ends->pd;
	SEND_OF(send, emit_send)
	RECEIVE_OF(recv)

	for (int i = 0; i < ROUNDS; i++) {
		POLL_ONE(wc)
		struct buf *b = BUF(&wc);

		HOME(b)
		if (wc.opcode & IBV_WC_RECV) {
			REFUND(END(b), RECEIVE, 1)
			WRONG(wc.byte_len - 1 >= b->capacity)
			b->sge.length = wc.byte_len;
			TRY(FORM(post)(e, END(b), &send, b, pd));
		} else {
			REFUND(END(b), SEND, 1)
			TRY(FORM(receive)(e, END(b), &recv, b, pd, 0));
		}
	}
	return 0;
}

/* A client: posts a receive and a request, and waits for both completions. */
int FORM(rpc)(struct env *e)
{
	struct buf *answer = e->bufs[0], *request = e->bufs[1];
	const uint32_t pd = e->ends->pd;
	uint64_t sum = 0;
	SEND_OF(send, emit_send)
	RECEIVE_OF(recv)

	for (int i = 0; i < ROUNDS; i++) {
		int out = 2;

		OWNED_BY(answer, e->ends)
		OWNED_BY(request, e->ends)
		TRY(FORM(receive)(e, e->ends, &recv, answer, pd, 0));
		TRY(FORM(post)(e, e->ends, &send, request, pd));
		do {
			POLL_ONE(wc)
			struct buf *b = BUF(&wc);

			HOME(b)
			out--;
			if (wc.opcode & IBV_WC_RECV) {
				REFUND(END(b), RECEIVE, 1)
				WRONG(wc.byte_len > b->capacity)
				sum += wc.byte_len;
				answer = b;
			} else {
				REFUND(END(b), SEND, 1)
				request = b;
			}
		} while (out);
	}
	seen = sum;
	return 0;
}

/* Reads each message from the shared receive queue, and posts its buffer as a receive again. */
int FORM(shared)(struct env *e)
{
	const uint32_t pd = e->ends->pd;
	uint64_t sum = 0;
	RECEIVE_OF(recv)

	for (int i = 0; i < ROUNDS; i++) {
		EACH(at)
			struct buf *b = BUF(at);

			HOME(b)
			sum += at->byte_len;
			TRY(FORM(receive)(e, e->ends, &recv, b, pd, 1));
		NEXT(at);
	}
	seen = sum;
	return 0;
}

/* A stream of receives. All buffers of a poll are posted again as one list. */
int FORM(stream)(struct env *e)
{
	const uint32_t pd = e->ends->pd;
	struct ibv_recv_wr wr[BATCH];
	uint64_t sum = 0;

	for (int i = 0; i < BATCH; i++) {
		wr[i].num_sge = 1;
		wr[i].next = &wr[i + 1];
	}
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_recv_wr *bad, *to = wr;
		uint32_t all = pd;
		int ret;

		EACH(at)
			struct buf *b = BUF(at);

			HOME(b)
			REFUND(e->ends, RECEIVE, 1)
			sum += at->byte_len;
			all |= b->pd;
			LEND(b)
			to->wr_id = (uintptr_t)b;
			to->sg_list = &b->whole;
			to++;
		NEXT(at);
		WRONG(all != pd)
		SPEND(e->ends, RECEIVE, to - wr)
		to[-1].next = NULL;
		NO_BAD(bad)
		ret = ibv_post_recv(e->ends->qp, wr, &bad);
		if (UNLIKELY(ret))
			return failed(wr, bad, ret);
		to[-1].next = to;
	}
	seen = sum;
	return 0;
}

int FORM(prime_datagrams)(struct env *e)
{
	SEND_OF(send, emit_ud_send)

	send.wr.ud.ah = e->peers[0];
	e->bufs[1]->end = e->ends;
	TRY(FORM(prime)(e, 1, 0));
	return FORM(post)(e, e->ends, &send, e->bufs[1], e->ends->pd);
}

/* Sends to one of 64 peers, and reads a received message after its GRH. */
int FORM(datagrams)(struct env *e)
{
	const uint32_t pd = e->ends->pd;
	uint64_t sum = 0;
	SEND_OF(send, emit_ud_send)
	RECEIVE_OF(recv)

	for (uint32_t i = 0; i < ROUNDS; i++) {
		EACH(at)
			struct buf *b = BUF(at);

			HOME(b)
			if (at->opcode & IBV_WC_RECV) {
				REFUND(END(b), RECEIVE, 1)
				WRONG(at->byte_len > b->capacity)
				if (at->byte_len > GRH_LEN)
					sum += ((unsigned char *)(uintptr_t)b->sge.addr)[GRH_LEN];
				TRY(FORM(receive)(e, END(b), &recv, b, pd, 0));
			} else {
				REFUND(END(b), SEND, 1)
				WRONG(e->ah_keys[i % 64 & e->ah_mask] != i % 64 + 1)
				send.wr.ud.ah = e->peers[i % 64];
				TRY(FORM(post)(e, END(b), &send, b, pd));
			}
		NEXT(at);
	}
	seen = sum;
	return 0;
}

/* N WRITEs with one completion, which has the number of the list in flight. */
INLINE int FORM(listed)(struct env *e, struct end *end, struct ibv_send_wr *wr, uint32_t n, uint32_t seq, uint32_t pd)
{
	uint32_t pds = pd, longest = 0, i;

	SPEND(end, SEND, n)
#pragma GCC unroll 1
	for (i = 0; i < n; i++) {
		struct buf *b = e->bufs[i];

		pds |= b->pd;
		longest |= b->sge.length;
		LEND(b)
		wr[i].sg_list = &b->sge;
	}
	WRONG(pds != pd)
	if (CHECKS && UNLIKELY(longest > e->to.len))
		for (i = 0; i < n; i++)
			WRONG(e->bufs[i]->sge.length > e->to.len)
	wr[n - 1].wr_id = seq;
	TRY(FORM(ring)(e, end, wr));
	{
		POLL_ONE(wc)
		WRONG(wc.wr_id != seq)
	}
	REFUND(end, SEND, n)
	for (i = 0; LIVE && i < n; i++)
		HOME(e->bufs[i])
	return 0;
}

#define LISTED(name, count) \
	int FORM(name)(struct env *e) \
	{ \
		const uint32_t pd = e->ends->pd, n = count; \
		struct ibv_send_wr wr[BATCH]; \
		if (UNLIKELY(n - 1 >= BATCH)) \
			return failed(e, NULL, EINVAL); \
		for (uint32_t i = 0; i < n; i++) { \
			emit_write(&wr[i], NULL, e); \
			wr[i].wr_id = i; \
			wr[i].next = &wr[i + 1]; \
		} \
		wr[n - 1].next = NULL; \
		wr[n - 1].send_flags = IBV_SEND_SIGNALED; \
		for (uint32_t i = 0; i < ROUNDS; i += 1 + MANY) \
			_Pragma("GCC unroll 2") \
			for (uint32_t k = 0; k <= MANY; k++) \
				TRY(FORM(listed)(e, e->ends + k, wr, n, i + k, pd)); \
		return 0; \
	}
LISTED(chain4, 4)
LISTED(list4, e->counts[1])

/* A WRITE of two or four buffers, or of pieces of the region, alone or behind a header. */
INLINE int FORM(gathered)(struct env *e, int n, int bufs)
{
	const uint32_t pd = e->ends->pd, len = e->lengths[0], most = e->to.len;
	struct buf *region = e->region, *first = e->bufs[0];
	struct ibv_sge sge[16];
	SEND_OF(wr, emit_write)

	wr.sg_list = sge;
	wr.num_sge = n;
	/* If READs may target memory that the processor cannot access, each work request is signaled (R18.18). */
	if (bufs < n)
		wr.send_flags = IBV_SEND_SIGNALED;
	for (int i = bufs; i < n; i++) {
		sge[i].length = len;
		sge[i].lkey = region->sge.lkey;
	}
	for (int r = 0; r < ROUNDS; r++) {
		uint32_t pds = pd, all = (n - bufs) * len;
		struct buf *b = first;

		SPEND(e->ends, SEND, 1)
#pragma GCC unroll 16
		for (int i = 0; i < n; i++) {
			if (i < bufs) {
				if (i)
					b = b->next;
				pds |= b->pd;
				all += b->sge.length;
				LEND(b)
				sge[i] = b->sge;
			} else {
				uint64_t from = e->ids[i];

				WRONG(from > region->sge.length - len)
				sge[i].addr = region->sge.addr + from;
			}
		}
		if (bufs < n) {
			pds |= region->pd;
			WRONG(len - 1 >= region->sge.length)
			if (LIVE)
				region->state++;
		}
		WRONG(pds != pd)
		WRONG(all > most)
		wr.wr_id = (uintptr_t)first;
		TRY(FORM(ring)(e, e->ends, &wr));
		{
			POLL_ONE(wc)
			first = b = BUF(&wc);
		}
		REFUND(e->ends, SEND, 1)
		for (int i = 0; LIVE && i < bufs; i++, b = b->next)
			HOME(b)
		if (LIVE && bufs < n)
			region->state--;
	}
	return 0;
}

int FORM(gather2)(struct env *e) { return FORM(gathered)(e, 2, 2); }
int FORM(gather4)(struct env *e) { return FORM(gathered)(e, 4, 4); }
int FORM(piece)(struct env *e) { return FORM(gathered)(e, 1, 0); }
int FORM(header)(struct env *e) { return FORM(gathered)(e, 2, 1); }
int FORM(list16)(struct env *e) { return FORM(gathered)(e, 16, 0); }

/* A server that answers each request from a table in a region: the request has the number of the answer. */
int FORM(table)(struct env *e)
{
	struct answer { struct ibv_sge sge; struct answer *next; } answers[ANSWERS], *list = NULL;
	const uint32_t pd = e->ends->pd;
	struct buf *region = e->region;
	SEND_OF(send, emit_send)
	RECEIVE_OF(recv)

	send.send_flags = IBV_SEND_SIGNALED;
	for (int i = 0; i < ANSWERS; i++) {
		answers[i] = (struct answer){ { 0, PIECE, region->sge.lkey }, list };
		list = &answers[i];
	}
	for (int i = 0; i < ROUNDS; i++) {
		EACH(at)
			if (at->opcode & IBV_WC_RECV) {
				struct buf *b = BUF(at);
				uint32_t *number = (uint32_t *)(uintptr_t)b->sge.addr;
				struct answer *answer = list;
				uint64_t from;

				HOME(b)
				REFUND(e->ends, RECEIVE, 1)
				WRONG(at->byte_len < sizeof(*number) || at->byte_len > b->capacity)
				from = (uint64_t)*number * PIECE;
				TRY(FORM(receive)(e, e->ends, &recv, b, pd, 0));
				if (UNLIKELY(!answer))
					return failed(e, NULL, 0);
				list = answer->next;
				WRONG(from > region->sge.length - PIECE)
				WRONG(region->pd != pd)
				if (LIVE)
					region->state++;
				answer->sge.addr = region->sge.addr + from;
				SPEND(e->ends, SEND, 1)
				send.wr_id = (uintptr_t)answer;
				send.sg_list = &answer->sge;
				TRY(FORM(ring)(e, e->ends, &send));
			} else {
				struct answer *answer = (struct answer *)(uintptr_t)at->wr_id;

				REFUND(e->ends, SEND, 1)
				if (LIVE)
					region->state--;
				answer->next = list;
				list = answer;
			}
		NEXT(at);
	}
	return 0;
}

/* N WRITEs, and their completions with the device's clock. */
INLINE int FORM(timed)(struct env *e, int n)
{
	const uint32_t pd = e->ends->pd, most = e->to.len;
	SEND_OF(wr, emit_write)

	for (int r = 0; r < ROUNDS; r++) {
		struct ibv_poll_cq_attr attr = { 0 };
		struct buf **to = e->bufs;
		int i, ret;

		for (i = 0; i < n; i++) {
			struct buf *b = e->bufs[i];

			WRONG(b->sge.length > most)
			TRY(FORM(post)(e, e->ends, &wr, b, pd));
		}
		ret = ibv_start_poll(e->timed, &attr);
		if (UNLIKELY(ret))
			return failed(e, NULL, ret);
		do {
			struct buf *b;

			if (UNLIKELY(e->timed->status))
				return failed(e, NULL, e->timed->status);
			seen = ibv_wc_read_completion_ts(e->timed);
			b = BUF(e->timed);
			HOME(b)
			REFUND(e->ends, SEND, 1)
			*to++ = b;
			ret = ibv_next_poll(e->timed);
		} while (!ret);
		if (UNLIKELY(ret != ENOENT))
			return failed(e, NULL, ret);
		ibv_end_poll(e->timed);
		WRONG(to != e->bufs + n)
	}
	return 0;
}
int FORM(timed1)(struct env *e) { return FORM(timed)(e, 1); }
int FORM(timed16)(struct env *e) { return FORM(timed)(e, 16); }

/* N WRITEs in one session, and their completions. */
INLINE int FORM(session)(struct env *e, int n)
{
	/* ibv_create_qp_ex created it, so it begins with an ibv_qp. */
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)e->qp;
	const uint32_t pd = e->ends->pd, most = e->to.len;

	qp->wr_flags = 0;
	for (int r = 0; r < ROUNDS; r++) {
		struct buf **to = e->bufs;
		int i, ret;

		SPEND(e->ends, SEND, n)
		ibv_wr_start(qp);
		for (i = 0; i < n; i++) {
			struct buf *b = e->bufs[i];

			if (CHECKS && UNLIKELY(b->pd != pd || b->sge.length > most)) {
				ibv_wr_abort(qp);
				return failed(b, NULL, EINVAL);
			}
			LEND(b)
			qp->wr_id = (uintptr_t)b;
			ibv_wr_rdma_write(qp, e->to.rkey, e->to.addr);
			ibv_wr_set_sge(qp, b->sge.lkey, b->sge.addr, b->sge.length);
		}
		ret = ibv_wr_complete(qp);
		if (UNLIKELY(ret))
			return failed(qp, NULL, ret);
		EACH(at)
			struct buf *b = BUF(at);

			HOME(b)
			REFUND(e->ends, SEND, 1)
			*to++ = b;
		NEXT(at);
		WRONG(to != e->bufs + n)
	}
	return 0;
}
int FORM(session1)(struct env *e) { return FORM(session)(e, 1); }
int FORM(session4)(struct env *e) { return FORM(session)(e, 4); }

/* Waits on a completion channel: an empty queue is armed and polled once more before the program sleeps. (Arming it before the
 * first poll would save one poll. But then devices would send a useless event and interrupt for each completion that is polled
 * anyway.) */
INLINE int FORM(wake)(struct env *e, int n)
{
	const uint32_t pd = e->ends->pd, most = e->to.len;
	SEND_OF(wr, emit_write)

	for (int r = 0; r < ROUNDS; r++) {
		int i, back = 0;

		for (i = 0; i < n; i++) {
			struct buf *b = e->bufs[i];

			WRONG(b->sge.length > most)
			OWNED_BY(b, e->ends)
			TRY(FORM(post)(e, e->ends, &wr, b, pd));
		}
		while (back < n) {
			struct ibv_wc wc[BATCH];
			int got = ibv_poll_cq(e->cq, BATCH, wc);

			if (got == 0) {
				TRY(ibv_req_notify_cq(e->cq, 0));
				got = ibv_poll_cq(e->cq, BATCH, wc);
				if (got == 0) {
					TRY(event_of(e->cq));
					continue;
				}
			}
			WRONG(got > n - back)
			if (UNLIKELY(got < 0))
				return failed(wc, NULL, got);
			for (i = 0; i < got; i++) {
				struct buf *b = BUF(&wc[i]);

				if (UNLIKELY(wc[i].status))
					return failed(wc, NULL, got);
				HOME(b)
				REFUND(END(b), SEND, 1)
				e->bufs[back++] = b;
			}
		}
	}
	return 0;
}
int FORM(wake1)(struct env *e) { return FORM(wake)(e, 1); }
int FORM(wake32)(struct env *e) { return FORM(wake)(e, 32); }
