/* Extended polling: completions with the device's clock. Extended posting: sessions. */
#include "env.h"
#include "fields.h"

/* Stands for a program that reads the time. */
static volatile uint64_t last;

INLINE int timed(struct env *e, int n)
{
	struct ibv_poll_cq_attr attr = {0};
	int i, ret;

	for (i = 0; i < n; i++) {
		struct ibv_send_wr wr, *bad;
		struct ibv_sge sge = e->bufs[i]->sge;

		emit_write(&wr, &sge, e);
		wr.wr_id = (uintptr_t)e->bufs[i];
		wr.next = NULL;
		if (UNLIKELY(ibv_post_send(e->qp, &wr, &bad)))
			return failed(&wr, bad, -1);
	}
	ret = ibv_start_poll(e->timed, &attr);
	for (i = 0; ret == 0; i++) {
		if (UNLIKELY(e->timed->status))
			return failed(e, NULL, ret);
		last = ibv_wc_read_completion_ts(e->timed);
		e->bufs[i] = (struct buf *)(uintptr_t)e->timed->wr_id;
		ret = i + 1 == n ? -1 : ibv_next_poll(e->timed);
	}
	ibv_end_poll(e->timed);
	return i == n ? 0 : failed(e, NULL, ret);
}

/* N WRITEs in one session, and their completions. */
INLINE int session(struct env *e, int n)
{
	/* ibv_create_qp_ex created it, so it begins with an ibv_qp. */
	struct ibv_qp_ex *qp = (struct ibv_qp_ex *)e->qp;
	struct ibv_wc wc[BATCH];
	int i, ret;

	ibv_wr_start(qp);
	for (i = 0; i < n; i++) {
		const struct ibv_sge *sge = &e->bufs[i]->sge;

		qp->wr_id = (uintptr_t)e->bufs[i];
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, e->to.rkey, e->to.addr);
		ibv_wr_set_sge(qp, sge->lkey, sge->addr, sge->length);
	}
	ret = ibv_wr_complete(qp);
	if (UNLIKELY(ret))
		return failed(qp, NULL, ret);
	ret = ibv_poll_cq(e->cq, BATCH, wc);
	if (UNLIKELY(ret != n))
		return failed(e, NULL, ret);
	for (i = 0; i < n; i++) {
		if (UNLIKELY(wc[i].status))
			return failed(e, NULL, wc[i].status);
		e->bufs[i] = (struct buf *)(uintptr_t)wc[i].wr_id;
	}
	return 0;
}

int c0_session1(struct env *e) { return session(e, 1); }
int c0_session4(struct env *e) { return session(e, 4); }
int c0_timed1(struct env *e) { return timed(e, 1); }
int c0_timed16(struct env *e) { return timed(e, 16); }
