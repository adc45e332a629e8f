/* Waits on a completion channel: an empty queue is armed and polled once more before the program sleeps. (Arming it before the
 * first poll would save one poll. But then devices would send a useless event and interrupt for each completion that is polled
 * anyway.) */
#include "life.h"

/* Waits, and takes the event. */
INLINE int event_of(struct ibv_cq *cq)
{
	struct ibv_cq *of;
	void *context;

	if (UNLIKELY(ibv_get_cq_event(cq->channel, &of, &context)))
		return failed(cq, NULL, -1);
	ibv_ack_cq_events(of, 1);
	return 0;
}

#define TWINS(c) \
	POSTS(c) \
	INLINE int c##_wake(struct env *e, int n) \
	{ \
		int r, i; \
		for (r = 0; r < ROUNDS; r++) { \
			int back = 0; \
			for (i = 0; i < n; i++) \
				TRY(c##_send(e, e->qp, e->bufs[i], IBV_WR_RDMA_WRITE, -1)); \
			while (back < n) { \
				struct ibv_wc wc[BATCH]; \
				int got = ibv_poll_cq(e->cq, BATCH, wc); \
				if (got == 0) { \
					TRY(ibv_req_notify_cq(e->cq, 0)); \
					got = ibv_poll_cq(e->cq, BATCH, wc); \
					if (got == 0) { \
						TRY(event_of(e->cq)); \
						continue; \
					} \
				} \
				if (UNLIKELY(got < 0)) \
					return failed(wc, NULL, got); \
				for (i = 0; i < got; i++) { \
					struct buf *b; \
					if (UNLIKELY(wc[i].status)) \
						return failed(wc, NULL, got); \
					TAKE_##c(b, &wc[i]) \
					e->bufs[back++] = b; \
				} \
			} \
		} \
		return 0; \
	} \
	int c##_wake1(struct env *e) { return c##_wake(e, 1); } \
	int c##_wake32(struct env *e) { return c##_wake(e, 32); }

TWINS(c0)
TWINS(c2)
