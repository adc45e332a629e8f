/* Cold functions, in a separate file so that the compiler cannot inline them. */
#include "env.h"
#include "books.h"

int failed(const void *wr, const void *bad, int err)
{
	(void)wr;
	(void)bad;
	return err ? err : -1;
}

static int refill(struct queue *q, uint32_t n)
{
	if (q->poisoned)
		return 0;
	q->credit += q->completed - q->seen;
	q->seen = q->completed;
	return n <= q->credit;
}

int settle(struct queue *q, int direction, struct buf *b)
{
	if (b->pd != q->pd)
		return 0;
	if (direction == SEND && (b->sge.length == 0 || b->sge.length > q->longest))
		return 0;
	b->counter = &q->completed;
	b->state = q->mark;
	return 1;
}

static struct buf *named(uint64_t wr_id)
{
	return wr_id & NO_BUFFER ? NULL : (struct buf *)(uintptr_t)(wr_id & ~(uint64_t)TAGS);
}

/* Commits the n work requests at the end of the ring, or beyond it. Returns whether they fit. */
static int spend_slowly(struct queue *q, uint32_t n)
{
	uint32_t len = q->mask + 1, begin = q->at - q->slots, index, i;

	if (q->poisoned || q->tail - q->head + n > q->cap)
		return 0;
	for (i = begin > len ? begin : len; i < begin + n; i++)
		q->slots[i - len] = q->slots[i];
	q->tail += n;
	index = q->tail & q->mask;
	q->at = q->slots + index;
	q->room = q->cap - (q->tail - q->head);
	if (q->room > len - index)
		q->room = len - index;
	return 1;
}

int send_slowly(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective)
{
	struct queue *q = &e->send;
	struct ibv_send_wr *at = wr;
	uint32_t i;

	for (i = 0; i < n; i++, at = at->next) {
		struct buf *b = selective ? q->at[i] : named(at->wr_id);

		for (; b; b = at->num_sge > 1 ? b->next : NULL)
			if (!settle(q, SEND, b))
				return refused(e);
	}
	return send_again(e, wr, n, selective);
}

int send_again(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective)
{
	struct queue *q = &e->send;
	struct ibv_send_wr *at, *bad = NULL;
	int ret;

	if (selective ? !spend_slowly(q, n) : n > q->credit && !refill(q, n))
		return refused(e);
	for (at = wr; !selective && at; at = at->next)
		if (named(at->wr_id))
			named(at->wr_id)->state |= IN_FLIGHT;
	if (!selective)
		q->credit -= n;
	ret = ibv_post_send(e->qp, wr, &bad);
	return ret ? take_back(q, n, bad, ret) : 0;
}

int recv_slowly(struct env *e, struct ibv_recv_wr *wr, uint32_t n, int shared)
{
	struct queue *q = &e->recv;
	struct ibv_recv_wr *at, *bad = NULL;
	int ret;

	for (at = wr; at; at = at->next)
		if (!settle(q, RECEIVE, named(at->wr_id)))
			return refused(e);
	if (!shared && n > q->credit && !refill(q, n))
		return refused(e);
	for (at = wr; at; at = at->next)
		named(at->wr_id)->state |= IN_FLIGHT;
	if (!shared)
		q->credit -= n;
	ret = shared ? ibv_post_srq_recv(e->srq, wr, &bad) : ibv_post_recv(e->qp, wr, &bad);
	return ret ? take_back(q, n, bad, ret) : 0;
}

uint32_t more_room(struct queue *q, uint32_t n, uint32_t most, int selective)
{
	uint32_t room;

	if (n == most)
		return most;
	if (!selective)
		refill(q, 0);
	room = selective ? q->cap - (q->tail - q->head) : q->credit;
	return room < n ? n : room < most ? room : most;
}

int given_up(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective, int err)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct buf *b = selective ? e->send.slots[(e->send.tail + i) & e->send.mask] : named(wr[i].wr_id);

		if (b)
			b->state &= ~IN_FLIGHT;
	}
	return err;
}

int receives_given_up(struct ibv_recv_wr *wr, uint32_t n, int err)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		named(wr[i].wr_id)->state &= ~IN_FLIGHT;
	return err;
}

int refused(struct env *e)
{
	(void)e;
	return ENOMEM;
}

int take_back(struct queue *q, uint32_t n, const void *bad, int err)
{
	if (!bad) {
		q->poisoned = 1;
		q->room = q->credit = 0;
	} else {
		q->credit += n;
	}
	return err;
}

/* Discards outstanding work requests between two measured calls. */
int restore(struct env *e)
{
	struct queue *q[2] = { &e->send, &e->recv };
	int i;

	for (i = 0; i < 2; i++) {
		q[i]->head = q[i]->tail = 0;
		q[i]->at = q[i]->slots;
		q[i]->room = q[i]->cap;
		q[i]->credit = q[i]->cap;
		q[i]->seen = q[i]->completed;
	}
	for (i = 0; i < 2; i++)
		e->ends[i].credit[SEND] = e->ends[i].credit[RECEIVE] = e->ends[i].cap;
	for (i = 0; i < MOST; i++)
		if (e->bufs[i]) {
			e->bufs[i]->state &= ~IN_FLIGHT;
			e->bufs[i]->pd = e->send.pd;
		}
	return 0;
}
