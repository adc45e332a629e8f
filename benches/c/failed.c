/* Cold ends, in a file of their own so that no compiler looks through them. */
#include "env.h"
#include "books.h"

int failed(const void *wr, const void *bad, int err)
{
	(void)wr;
	(void)bad;
	return err ? err : -1;
}

int refill(struct queue *q, int direction, uint32_t n)
{
	if (q->poisoned)
		return 0;
	q->credit += q->completed[direction] - q->seen;
	q->seen = q->completed[direction];
	return n <= q->credit;
}

int mismatch(const struct queue *q, const struct buf *b)
{
	return q->pd != b->pd;
}

int refused(struct env *e)
{
	(void)e;
	return ENOMEM;
}

int take_back(struct queue *q, uint32_t n, const void *bad, int err)
{
	if (!bad)
		q->poisoned = 1;
	else
		q->credit += n;
	return err;
}

/* Forgets what is outstanding, between two measured calls. */
int restore(struct env *e)
{
	struct queue *q[2] = { &e->send, &e->recv };
	int i;

	for (i = 0; i < 2; i++) {
		q[i]->head = q[i]->tail;
		q[i]->credit = q[i]->cap;
		q[i]->seen = q[i]->completed[i];
	}
	for (i = 0; i < MOST; i++)
		if (e->bufs[i])
			e->bufs[i]->in_flight = 0;
	return 0;
}
