/* A queue pair from its creation to its end. */
#include <string.h>

#include "env.h"
#include "fields.h"

enum { USED = 12, DEPTH = 16 };

INLINE struct ibv_qp *connected(struct env *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	memset(&init, 0, sizeof(init));
	init.send_cq = e->cq;
	init.recv_cq = e->cq;
	init.cap.max_send_wr = DEPTH;
	init.cap.max_recv_wr = DEPTH;
	init.cap.max_send_sge = 1;
	init.cap.max_recv_sge = 1;
	init.qp_type = IBV_QPT_RC;
	init.sq_sig_all = 1;
	qp = ibv_create_qp(e->pd, &init);
	if (UNLIKELY(!qp))
		return NULL;
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_INIT;
	attr.port_num = e->port;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	if (UNLIKELY(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)))
		return NULL;
	attr.qp_state = IBV_QPS_RTR;
	attr.ah_attr.dlid = 1;
	attr.ah_attr.port_num = e->port;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = e->peer;
	attr.rq_psn = 7;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	if (UNLIKELY(ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)))
		return NULL;
	attr.qp_state = IBV_QPS_RTS;
	attr.timeout = 14;
	attr.retry_cnt = 6;
	attr.rnr_retry = 7;
	attr.sq_psn = 7;
	attr.max_rd_atomic = 1;
	if (UNLIKELY(ibv_modify_qp(qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					   IBV_QP_MAX_QP_RD_ATOMIC)))
		return NULL;
	return qp;
}

INLINE int life(struct env *e, int drains)
{
	struct ibv_qp *qp = connected(e);
	struct ibv_wc wc[BATCH];
	int i, got, back = 0;

	if (UNLIKELY(!qp))
		return failed(e, NULL, -1);
	for (i = 0; i < USED; i++) {
		struct ibv_send_wr wr, *bad;
		struct ibv_sge sge = e->bufs[i]->sge;

		emit_write(&wr, &sge, e);
		wr.wr_id = (uintptr_t)e->bufs[i];
		wr.next = NULL;
		if (UNLIKELY(ibv_post_send(qp, &wr, &bad)))
			return failed(&wr, bad, -1);
	}
	if (drains) {
		struct ibv_qp_attr attr;

		memset(&attr, 0, sizeof(attr));
		attr.qp_state = IBV_QPS_ERR;
		if (UNLIKELY(ibv_modify_qp(qp, &attr, IBV_QP_STATE)))
			return failed(qp, NULL, -1);
		while (back < USED) {
			got = ibv_poll_cq(e->cq, BATCH, wc);
			if (UNLIKELY(got <= 0))
				return failed(wc, NULL, got);
			for (i = 0; i < got; i++)
				e->bufs[back++] = (struct buf *)(uintptr_t)wc[i].wr_id;
		}
	}
	if (UNLIKELY(ibv_destroy_qp(qp)))
		return failed(qp, NULL, -1);
	/* Nothing of it comes any more: the buffers are free. */
	return ibv_poll_cq(e->cq, BATCH, wc);
}

int c0_drained(struct env *e) { return life(e, 1); }
int c0_outstanding(struct env *e) { return life(e, 0); }
