/* The three kinds of book-keeping that the safe path is compared with.
 *
 * C0  none: the wr_id is the address of the buffer.
 * C1  a ring of buffers that refuses to overflow; a completion releases all up to its own.
 * C2  every check that the crate makes: protection domain, the queue noted in the buffer, the mark
 *     "with the device", credits (or the ring), an outcome that is unknown (bad_wr stays NULL).
 */
#ifndef BOOKS_H
#define BOOKS_H

#include <errno.h>

#include "env.h"

#define RING (1ull << 63)

COLD int refill(struct queue *q, int direction, uint32_t n);
COLD int mismatch(const struct queue *q, const struct buf *b);
COLD int refused(struct env *e);
COLD int take_back(struct queue *q, uint32_t n, const void *bad, int err);

/* MODE: 0, 1 or 2. SELECTIVE: whether only the last work request of a list completes. */
#define HAS_RING(mode, selective) ((mode) == 1 || ((mode) == 2 && (selective)))

/* Whether n more fit. */
INLINE int has_room(struct queue *q, int direction, uint32_t n, int mode, int selective)
{
	if (HAS_RING(mode, selective))
		return LIKELY(q->tail - q->head + n <= q->cap);
	if (mode == 2)
		return LIKELY(n <= q->credit) || refill(q, direction, n);
	return 1;
}

/* The checks of one buffer; what is wrong. */
INLINE int attach(struct queue *q, struct buf *b, int mode)
{
	int fault = 0;

	if (mode == 2) {
		if (UNLIKELY(b->pd != q->pd))
			fault = mismatch(q, b);
		b->queue = q;
	}
	return fault;
}

/* The wr_id of the i-th work request of a list, whose buffer is b (NULL if it has none). */
INLINE uint64_t wr_id(struct queue *q, uint32_t i, struct buf *b, int tag, int mode, int selective)
{
	if (mode == 2 && selective)
		return q->id | (uint32_t)(q->tail + i);
	if (mode == 1)
		return (uint32_t)(q->tail + i);
	if (mode == 2)
		return (b ? (uint64_t)(uintptr_t)b : (uint64_t)(uintptr_t)q | 28) | tag;
	return (uint64_t)(uintptr_t)b;
}

INLINE void commit(struct queue *q, uint32_t i, struct buf *b, int mode, int selective)
{
	if (HAS_RING(mode, selective))
		q->slots[(q->tail + i) & q->mask] = b;
	else if (mode == 2 && b)
		b->in_flight = 1;
}

INLINE void spend(struct queue *q, uint32_t n, int mode, int selective)
{
	if (HAS_RING(mode, selective))
		q->tail += n;
	else if (mode == 2)
		q->credit -= n;
}

#endif
