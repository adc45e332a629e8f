/* The three kinds of book-keeping that the safe path is compared with.
 *
 * C0  none: the wr_id is the address of the buffer.
 * C1  a ring of buffers that refuses to overflow; a completion releases all up to its own.
 * C2  every check that the crate makes, and by the same means where those are the cheapest that we know:
 *
 *     row                  what is checked                                   how
 *     a buffer posted      protection domain, not empty, not longer than a   its state is the queue's mark: compared when
 *                          message, not with the device already              it was posted here before, looked at otherwise
 *     a send or receive    room for it, a queue whose outcome is known       credits, refilled when they are used up
 *     a WRITE              not longer than the remote slice                  the lengths compared
 *     a READ               the slice fits the buffer, whose length it is     the lengths compared; stored in element and buffer
 *     ud_send              the address handle is still the queue pair's      its name's key is that of the table
 *     any post             which work request was refused, if any            bad_wr is NULL unless the provider says
 *     a completion         whose it is: with or without a buffer             tag bits of the wr_id
 *     a selective one      this ring's, and of a work request in flight      id and range of the sequence number, compared at once
 */
#ifndef BOOKS_H
#define BOOKS_H

#include <errno.h>
#include <string.h>

#include "env.h"

enum { IN_FLIGHT = 1, NO_BUFFER = 1, RECEIVED = 4, TAGS = 63 };

/* The rest of a post that is not straightforward, for C2: looks at the buffers (send_again does not), looks for room,
 * posts or not. */
COLD int send_slowly(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective);
COLD int send_again(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective);
COLD int recv_slowly(struct env *e, struct ibv_recv_wr *wr, uint32_t n, int shared);
/* Whether the buffer may be posted; it is the queue's then. */
COLD int settle(struct queue *q, int direction, struct buf *b);
/* How many work requests a list of n can have, of at most `most`, now that as many are there as were known to fit. */
COLD uint32_t more_room(struct queue *q, uint32_t n, uint32_t most, int selective);
/* A list of n that is not posted because of `err`: its buffers are the program's again. */
COLD int given_up(struct env *e, struct ibv_send_wr *wr, uint32_t n, int selective, int err);
COLD int receives_given_up(struct ibv_recv_wr *wr, uint32_t n, int err);
COLD int refused(struct env *e);
COLD int take_back(struct queue *q, uint32_t n, const void *bad, int err);

/* MODE: 0, 1 or 2. SELECTIVE: whether only the last work request of a list completes. */
#define HAS_RING(mode, selective) ((mode) == 1 || ((mode) == 2 && (selective)))

/* Whether n more fit (without a look, for C2). */
INLINE int has_room(struct queue *q, uint32_t n, int mode, int selective)
{
	if (mode == 1)
		return LIKELY(q->tail - q->head + n <= q->cap);
	if (mode == 2)
		return LIKELY(n <= (selective ? q->room : q->credit));
	return 1;
}

/* How many fit by what is known. */
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

/* Two halves side by side, in one load. */
INLINE uint64_t name(const uint32_t *id)
{
	uint64_t name;

	memcpy(&name, id, sizeof name);
	return name;
}

/* The states of the buffers of a list, or-ed together: the queue's mark exactly if each of them is. */
struct seen {
	uint32_t states;
	int any;
};

/* Notes the state of a buffer, and (where the buffer is the wr_id) that the device has it. */
INLINE void see(struct seen *seen, const struct queue *q, struct buf *b, int mode, int selective)
{
	/* clang asks again, where the wr_id is made, unless it is told that it need not. */
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

/* What is read of the books for each work request of a list: from a copy where it is the ring, because the compiler has to
 * take each store to a work request for one to the books. */
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

/* The same for C2's ring, step by step: the first of a list, and the difference of one to the next. */
INLINE uint64_t name_of(const struct queue *q)
{
	return name(&q->id);
}
#define NEXT_NAME (1ull << 32)

/* That of the i-th of a list. */
INLINE uint64_t wr_id(struct queue *q, uint32_t i, struct buf *b, int tag, int mode, int selective)
{
	if (mode == 2 && selective)
		return name(&q->id) + ((uint64_t)i << 32);
	return wr_id_at(q, q->tail + i, b, tag, mode, selective);
}

/* Notes the buffer of the work request with this sequence number, which is about to be posted. The ring has slots enough
 * for a list that turns out not to fit. */
INLINE void enter_at(const struct queue *q, uint32_t seq, struct buf *b, int mode, int selective)
{
	if (mode == 2 && selective)
		q->at[seq - q->tail] = b;
	else if (mode == 1)
		q->slots[seq & q->mask] = b;
}

/* That of the i-th of a list. */
INLINE void enter(struct queue *q, uint32_t i, struct buf *b, int mode, int selective)
{
	enter_at(q, q->tail + i, b, mode, selective);
}

#endif
