/* Memory that peers can access. C copies it with memcpy(3) after a bounds check, and sends it without a handle. If one buffer
 * goes to three queue pairs, C counts its owners in the buffer. */
#include <stdlib.h>
#include <string.h>

#include "env.h"
#include "fields.h"

INLINE int c0_read(struct env *e, size_t len)
{
	if (UNLIKELY(len > e->to.len))
		return -1;
	memcpy(e->bytes, (void *)(uintptr_t)e->to.addr, len);
	return 0;
}

INLINE int c0_write(struct env *e, size_t len)
{
	if (UNLIKELY(len > e->to.len))
		return -1;
	memcpy((void *)(uintptr_t)e->to.addr, e->bytes, len);
	return 0;
}

int c0_read64(struct env *e) { return c0_read(e, e->lengths[0]); }
int c0_write64(struct env *e) { return c0_write(e, e->lengths[0]); }
int c0_read4096(struct env *e) { return c0_read(e, e->lengths[1]); }
int c0_write4096(struct env *e) { return c0_write(e, e->lengths[1]); }

/* Sends one buffer to three queue pairs, until none owns it. */
INLINE int c0_shared(struct env *e)
{
	struct ibv_qp *qps[3] = {e->qp, e->more[0], e->more[1]};
	struct ibv_wc wc[BATCH];
	struct buf *b = e->bufs[0];
	int i, ret;
	b->state = 0;
	for (i = 0; i < 3; i++) {
		struct ibv_send_wr wr, *bad;
		struct ibv_sge sge = b->sge;
		emit_write(&wr, &sge, e);
		wr.wr_id = (uintptr_t)b;
		wr.next = NULL;
		ret = ibv_post_send(qps[i], &wr, &bad);
		if (UNLIKELY(ret))
			return failed(&wr, bad, ret);
		b->state++;
	}
	ret = ibv_poll_cq(e->cq, BATCH, wc);
	for (i = 0; i < ret; i++) {
		if (UNLIKELY(wc[i].status))
			return failed(wc, NULL, wc[i].status);
		((struct buf *)(uintptr_t)wc[i].wr_id)->state--;
	}
	return UNLIKELY(b->state) ? -1 : 0;
}

int c0_fanout(struct env *e) { return c0_shared(e); }

/* There are no handles in C. */
int c0_cloned(struct env *e) { return c0_shared(e); }

/* Replies with a piece of the region, from a place that is known only at run time. */
INLINE int c0_answer(struct env *e)
{
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_wc wc;
	int ret;
	if (UNLIKELY(e->offset > e->to.len || e->lengths[0] > e->to.len - e->offset))
		return -1;
	sge.addr = e->to.addr + e->offset;
	sge.length = e->lengths[0];
	sge.lkey = e->pieces[0].lkey;
	emit_send(&wr, &sge, e);
	/* If READs may target memory that the processor cannot access, each work request is signaled (R18.18). */
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.wr_id = 0;
	wr.next = NULL;
	ret = ibv_post_send(e->answers, &wr, &bad);
	if (UNLIKELY(ret))
		return failed(&wr, bad, ret);
	ret = ibv_poll_cq(e->answered, 1, &wc);
	return UNLIKELY(ret != 1 || wc.status) ? failed(&wc, NULL, ret) : 0;
}

int c0_piece(struct env *e) { return c0_answer(e); }

/* There are no handles to create or keep in C. */
int c0_made(struct env *e) { return c0_answer(e); }
int c0_kept(struct env *e) { return c0_answer(e); }

/* Takes a buffer from a stack, and returns it. */
int c0_take(struct env *e)
{
	static unsigned int left = MOST;
	struct buf *b;
	if (UNLIKELY(left == 0))
		return -1;
	b = e->bufs[--left];
	__asm__ volatile("" : "+r"(b) : : "memory");
	e->bufs[left++] = b;
	return 0;
}

/* Memory of any length: malloc(3) does not have regions or handles. */
int c0_arena(struct env *e)
{
	void *bytes = malloc(e->lengths[0]);
	if (UNLIKELY(!bytes))
		return -1;
	__asm__ volatile("" : "+r"(bytes) : : "memory");
	free(bytes);
	return 0;
}
