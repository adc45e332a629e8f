/* Work requests that are built once and posted many times. C0 writes only the buffer. C2 also makes the checks of the crate:
 * room in the completion queue, the buffer's protection domain and owner, the end of a remote slice. */
#include <errno.h>
#include <string.h>

#include "env.h"
#include "fields.h"

/* The tag of a wr_id without a buffer. */
enum { NO_BUFFER = 1 };

static struct {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t bytes[PAYLOAD];
} send_, write_, inline_;

INLINE int fill(struct env *e)
{
	memset(&send_, 0, sizeof(send_));
	memset(&write_, 0, sizeof(write_));
	memset(&inline_, 0, sizeof(inline_));
	emit_send(&send_.wr, &send_.sge, e);
	emit_write(&write_.wr, &write_.sge, e);
	emit_inline_send(&inline_.wr, &inline_.sge, e);
	memcpy(inline_.bytes, e->payload, PAYLOAD);
	inline_.sge.addr = (uintptr_t)inline_.bytes;
	inline_.sge.length = PAYLOAD;
	return 0;
}

int c0_ready_fill(struct env *e) { return fill(e); }
int c2_ready_fill(struct env *e)
{
	fill(e);
	/* The queue that counts its completions. */
	inline_.wr.wr_id = (uintptr_t)&e->send.completed | NO_BUFFER;
	return 0;
}

INLINE int post(struct env *e, struct ibv_send_wr *wr, int is_checked)
{
	struct ibv_send_wr *bad;
	int ret;

	if (is_checked)
		bad = NULL;
	ret = ibv_post_send(e->qp, wr, &bad);
	return UNLIKELY(ret) ? failed(wr, bad, ret) : 0;
}

INLINE int c0_post(struct env *e, struct ibv_send_wr *wr, struct buf *b, int has_end)
{
	(void)has_end;
	wr->wr_id = (uintptr_t)b;
	wr->sg_list = &b->sge;
	return post(e, wr, 0);
}

INLINE int c0_post_inline(struct env *e) { return post(e, &inline_.wr, 0); }

/* Reads the completion counter when there is no room. */
INLINE int room(struct queue *q)
{
	if (UNLIKELY((int32_t)(q->credit -= 1) < 0)) {
		q->credit += q->completed - q->seen;
		q->seen = q->completed;
		if (UNLIKELY((int32_t)q->credit < 0))
			return failed(q, NULL, ENOMEM);
	}
	return 0;
}

INLINE int c2_post(struct env *e, struct ibv_send_wr *wr, struct buf *b, int has_end)
{
	if (UNLIKELY(b->pd != e->send.pd))
		return failed(b, NULL, EINVAL);
	if (has_end && UNLIKELY(b->sge.length > e->to.len))
		return failed(b, NULL, EINVAL);
	if (UNLIKELY(room(&e->send)))
		return -1;
	b->counter = &e->send.completed;
	wr->wr_id = (uintptr_t)b;
	wr->sg_list = &b->sge;
	return post(e, wr, 1);
}

INLINE int c2_post_inline(struct env *e)
{
	if (UNLIKELY(room(&e->send)))
		return -1;
	return post(e, &inline_.wr, 1);
}

/* One post. */
#define TWINS(c) \
	int c##_ready_send(struct env *e) { return c##_post(e, &send_.wr, e->bufs[0], 0); } \
	int c##_ready_write(struct env *e) { return c##_post(e, &write_.wr, e->bufs[0], 1); } \
	int c##_ready_inline_send(struct env *e) { return c##_post_inline(e); }

TWINS(c0)
TWINS(c2)
