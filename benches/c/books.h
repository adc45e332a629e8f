/* The three kinds of bookkeeping that the safe interface is compared with.
 *
 * C0  none: the wr_id is the address of the buffer.
 * C1  a ring of buffers that rejects overflow; a completion releases all buffers up to its own.
 * C2  every check that the crate makes, by the cheapest means that we know:
 *
 *     row                  check                                             how
 *     a buffer posted      protection domain, not empty, not longer than a   its state equals the queue's mark if it
 *                          message, not owned by the device                  was posted here before, otherwise inspected
 *     a send or receive    room for it, a queue without an unknown outcome   credits, refilled when they are used up
 *     a WRITE              not longer than the remote slice                  compares the lengths
 *     a READ               the slice fits the buffer and sets its length     compares the lengths; stored in element and buffer
 *     ud_send              the queue pair still has the address handle       compares the key of the name with the table
 *     any post             the work request that failed, if any              bad_wr is NULL unless the provider sets it
 *     a completion         its work request: with or without a buffer        tag bits of the wr_id
 *     a selective one      of this ring, and of a work request in flight     id and range of the sequence number, compared together
 */
#ifndef BOOKS_H
#define BOOKS_H

#include <errno.h>
#include <string.h>

#include "env.h"

enum { IN_FLIGHT = 1, NO_BUFFER = 1, RECEIVED = 4, TAGS = 63 };

/* The slow path of a post, for C2: inspects the buffers (send_again does not), checks for room, and posts if it can. */
COLD int send_slowly(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective);
COLD int send_again(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective);
COLD int recv_slowly(struct env *e, struct ibv_recv_wr *wr, uint32_t n, int shared);
/* Whether the buffer may be posted. If so, it is marked for the queue. */
COLD int settle(struct queue *q, int direction, struct buf *b);
/* The number of work requests (at most `most`) that a list of n can have, after it reached the known limit. */
COLD uint32_t more_room(struct queue *q, uint32_t n, uint32_t most, int selective);
/* Returns the buffers of a list of n that is not posted because of `err`. */
COLD int given_up(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective, int err);
COLD int receives_given_up(struct ibv_recv_wr *wr, uint32_t n, int err);
COLD int refused(struct env *e);
COLD int take_back(struct queue *q, uint32_t n, const void *bad, int err);

/* MODE: 0, 1 or 2. SELECTIVE: whether only the last work request of a list completes. */
#define HAS_RING(mode, selective) ((mode) == 1 || ((mode) == 2 && (selective)))

/* Whether n more fit (for C2, without reading the completion counter). */
INLINE int has_room(struct queue *q, uint32_t n, int mode, int selective)
{
	if (mode == 1)
		return LIKELY(q->tail - q->head + n <= q->cap);
	if (mode == 2)
		return LIKELY(n <= (selective ? q->room : q->credit));
	return 1;
}

/* The number that is known to fit. */
INLINE uint32_t room_of(const struct queue *q, int mode, int selective)
{
	if (HAS_RING(mode, selective))
		return q->cap - (q->tail - q->head);
	return q->credit;
}

INLINE void spend(struct queue *q, uint32_t n, int mode, int selective)
{
	if (HAS_RING(mode, selective))
		q->tail += n;
	if (mode == 2 && selective) {
		q->at += n;
		q->room -= n;
	} else if (mode == 2) {
		q->credit -= n;
	}
}

/* Two adjacent halves in one load. */
INLINE uint64_t name(const uint32_t *id)
{
	uint64_t name;

	memcpy(&name, id, sizeof name);
	return name;
}

/* The bitwise or of the states of a list's buffers: it equals the queue's mark exactly if each of them does. */
struct seen {
	uint32_t states;
	int any;
};

/* Records the state of a buffer, and (if the buffer is the wr_id) that the device owns it. */
INLINE void see(struct seen *seen, const struct queue *q, struct buf *b, int mode, int selective)
{
	/* Without this, clang checks again where the wr_id is computed. */
	if (!b)
		__builtin_unreachable();
	if (mode != 2)
		return;
	seen->states = seen->any ? seen->states | b->state : b->state;
	seen->any = 1;
	if (!selective)
		b->state = q->mark | IN_FLIGHT;
}

INLINE int is_strange(const struct seen *seen, const struct queue *q, int mode)
{
	return mode == 2 && seen->any && seen->states != q->mark;
}

/* The fields that are read for each work request of a list. For a ring they come from a copy, because the compiler has to
 * assume that each store to a work request changes the originals. */
#define BOOKS(q, copy, mode, selective) (HAS_RING(mode, selective) ? (const struct queue *)&(copy) : (q))

/* The wr_id of the work request with this sequence number, whose buffer is b (NULL if it has none). */
INLINE uint64_t wr_id_at(const struct queue *q, uint32_t seq, struct buf *b, int tag, int mode, int selective)
{
	if (mode == 2 && selective)
		return (uint64_t)seq << 32 | q->id;
	if (mode == 1)
		return seq;
	if (mode == 2)
		return (b ? (uint64_t)(uintptr_t)b : (uint64_t)(uintptr_t)&q->completed | NO_BUFFER) | tag;
	return (uint64_t)(uintptr_t)b;
}

/* The same for C2's ring, incrementally: the first of a list, and the difference between neighbours. */
INLINE uint64_t name_of(const struct queue *q)
{
	return name(&q->id);
}
#define NEXT_NAME (1ull << 32)

/* The same for the i-th work request of a list. */
INLINE uint64_t wr_id(struct queue *q, uint32_t i, struct buf *b, int tag, int mode, int selective)
{
	if (mode == 2 && selective)
		return name(&q->id) + ((uint64_t)i << 32);
	return wr_id_at(q, q->tail + i, b, tag, mode, selective);
}

/* Records the buffer of the work request with this sequence number, which is about to be posted. The ring has enough slots
 * for a list that turns out not to fit. */
INLINE void enter_at(const struct queue *q, uint32_t seq, struct buf *b, int mode, int selective)
{
	if (mode == 2 && selective)
		q->at[seq - q->tail] = b;
	else if (mode == 1)
		q->slots[seq & q->mask] = b;
}

/* The same for the i-th work request of a list. */
INLINE void enter(struct queue *q, uint32_t i, struct buf *b, int mode, int selective)
{
	enter_at(q, q->tail + i, b, mode, selective);
}

#endif
