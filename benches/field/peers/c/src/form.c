/* The same work in C, with designated initialisers and no books. */
#include <stdlib.h>

#include <infiniband/verbs.h>

enum { LEN = 16, DEPTH = 64, REMOTE_ADDR = 0x100000, REMOTE_KEY = 0x4242 };

struct form {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	/* What polls write, as other programs keep it too. */
	uint64_t ids[16];
};

static char data[LEN];

static void to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		abort();
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = qp->qp_num, .rq_psn = 7, .max_dest_rd_atomic = 1,
				     .min_rnr_timer = 12, .ah_attr = { .dlid = 1, .port_num = 1 } };
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		abort();
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 6,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					     IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		abort();
}

struct form *form_new(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct form *form = calloc(1, sizeof(*form));

	if (!pd || !form)
		abort();
	form->cq = ibv_create_cq(context, 2 * DEPTH, NULL, NULL, 0);
	form->mr = ibv_reg_mr(pd, data, LEN, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp_init_attr attr = {
		.send_cq = form->cq, .recv_cq = form->cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	form->qp = ibv_create_qp(pd, &attr);
	if (!form->cq || !form->mr || !form->qp)
		abort();
	to_rts(form->qp);
	return form;
}

#define SGE { .addr = (uintptr_t)f->mr->addr, .length = LEN, .lkey = f->mr->lkey }
#define WRITE(i, then) \
	{ .wr_id = i, .next = then, .sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, \
	  .send_flags = IBV_SEND_SIGNALED, .wr.rdma = { .remote_addr = REMOTE_ADDR, .rkey = REMOTE_KEY } }

int form_post(struct form *f)
{
	struct ibv_sge sge[] = { SGE };
	struct ibv_send_wr wr = WRITE(0, NULL), *bad;

	return ibv_post_send(f->qp, &wr, &bad) == 0;
}

int form_chain4(struct form *f)
{
	struct ibv_sge sge[] = { SGE, SGE, SGE, SGE };
	struct ibv_send_wr wr[] = { WRITE(0, &wr[1]), WRITE(1, &wr[2]), WRITE(2, &wr[3]), WRITE(3, NULL) };
	struct ibv_send_wr *bad;

	return ibv_post_send(f->qp, wr, &bad) == 0;
}

int form_recv(struct form *f)
{
	struct ibv_sge sge = SGE;
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(f->qp, &wr, &bad) == 0;
}

static inline int poll(struct form *f, int most)
{
	struct ibv_wc wc[most];
	int n = ibv_poll_cq(f->cq, most, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return 0;
		f->ids[i] = wc[i].wr_id;
	}
	return n > 0;
}

int form_poll1(struct form *f)
{
	return poll(f, 1);
}

int form_poll16(struct form *f)
{
	return poll(f, 16);
}

int form_cycle(struct form *f)
{
	return form_post(f) && poll(f, 1);
}
