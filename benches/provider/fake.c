/*
 * mlx5 without a device: objects of its provider on plain memory, made by hand where the kernel
 * would make them, and a "device" that completes what was posted. Built with the provider's own
 * objects into one library by `cargo xtask provider`; what is measured of it is mlx5_post_send,
 * mlx5_post_recv and mlx5_poll_cq, and the functions that mlx5 gives to queue pairs of extended
 * posting and to completion queues of extended polling, as they are.
 *
 * Thread domains have a doorbell page of their own without a lock, as on hardware; other queue pairs
 * share one with a lock. Nothing is ever freed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mlx5.h"
#include "wqe.h"

enum { PAGE = 4096, BF_SIZE = 256, MOST_SGE = 4 };

static struct verbs_device device;

static void *zeroed(size_t size)
{
	void *memory = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);

	if (!memory)
		abort();
	return memset(memory, 0, size);
}

static struct mlx5_bf *doorbell(int need_lock)
{
	struct mlx5_bf *bf = zeroed(sizeof(*bf));

	bf->reg = zeroed(PAGE);
	bf->buf_size = BF_SIZE;
	bf->uuarn = 1;
	bf->need_lock = need_lock;
	mlx5_spinlock_init(&bf->lock, need_lock);
	return bf;
}

static int query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			struct ibv_device_attr_ex *attr, size_t size)
{
	memset(attr, 0, size);
	attr->orig_attr.max_qp = 1 << 17;
	attr->orig_attr.max_qp_wr = 32768;
	attr->orig_attr.max_sge = 30;
	attr->orig_attr.max_cq = 1 << 24;
	attr->orig_attr.max_cqe = 1 << 22;
	attr->orig_attr.max_qp_rd_atom = 16;
	attr->orig_attr.max_qp_init_rd_atom = 16;
	attr->orig_attr.phys_port_cnt = 1;
	return 0;
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	attr->state = IBV_PORT_ACTIVE;
	attr->max_mtu = attr->active_mtu = IBV_MTU_4096;
	attr->max_msg_sz = 1 << 30;
	attr->gid_tbl_len = 1;
	attr->link_layer = IBV_LINK_LAYER_ETHERNET;
	return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
	struct mlx5_pd *pd = zeroed(sizeof(*pd));

	atomic_init(&pd->refcount, 1);
	pd->pdn = 1;
	return &pd->ibv_pd;
}

static int leave_pd(struct ibv_pd *pd)
{
	return 0;
}

static struct ibv_td *alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct mlx5_td *td = zeroed(sizeof(*td));

	td->ibv_td.context = context;
	td->bf = doorbell(0);
	atomic_init(&td->refcount, 1);
	return &td->ibv_td;
}

static int leave_td(struct ibv_td *td)
{
	return 0;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, int access)
{
	struct verbs_mr *mr = zeroed(sizeof(*mr));

	mr->ibv_mr.lkey = mr->ibv_mr.rkey = 0x1234;
	mr->ibv_mr.context = pd->context;
	return &mr->ibv_mr;
}

static int leave_mr(struct verbs_mr *mr)
{
	return 0;
}

static struct mlx5_cq *make_cq(struct ibv_context *context, uint32_t cqe)
{
	struct mlx5_cq *cq = zeroed(sizeof(*cq));
	uint32_t count = 1;

	while (count < cqe + 1)
		count *= 2;
	cq->cqe_sz = sizeof(struct mlx5_cqe64);
	cq->buf_a.buf = zeroed(count * sizeof(struct mlx5_cqe64));
	for (uint32_t i = 0; i < count; i++)
		((struct mlx5_cqe64 *)cq->buf_a.buf)[i].op_own = MLX5_CQE_INVALID << 4;
	cq->active_buf = &cq->buf_a;
	cq->active_cqes = count - 1;
	cq->verbs_cq.cq.cqe = count - 1;
	cq->verbs_cq.cq.context = context;
	cq->dbrec = zeroed(64);
	mlx5_spinlock_init(&cq->lock, !mlx5_single_threaded);
	return cq;
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe,
				struct ibv_comp_channel *channel, int vector)
{
	return &make_cq(context, cqe)->verbs_cq.cq;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct mlx5_cq *cq = make_cq(context, attr->cqe);

	cq->flags |= MLX5_CQ_FLAGS_EXTENDED;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS &&
	    attr->flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED)
		cq->flags |= MLX5_CQ_FLAGS_SINGLE_THREADED;
	errno = mlx5_cq_fill_pfns(cq, attr, to_mctx(context));
	return errno ? NULL : &cq->verbs_cq.cq_ex;
}

static int leave_cq(struct ibv_cq *cq)
{
	return 0;
}

static void make_wq(struct mlx5_wq *wq, struct ibv_pd *pd, uint32_t asked, int shift)
{
	wq->wqe_cnt = 1;
	while (wq->wqe_cnt < asked)
		wq->wqe_cnt *= 2;
	wq->max_post = wq->wqe_cnt;
	wq->max_gs = wq->qp_state_max_gs = MOST_SGE;
	wq->wqe_shift = shift;
	wq->wrid = zeroed(wq->wqe_cnt * sizeof(*wq->wrid));
	wq->wr_data = zeroed(wq->wqe_cnt * sizeof(*wq->wr_data));
	wq->wqe_head = zeroed(wq->wqe_cnt * sizeof(*wq->wqe_head));
	mlx5_spinlock_init_pd(&wq->lock, pd);
}

/* What the device has completed of a queue pair. */
struct fake_qp {
	struct mlx5_qp qp;
	unsigned sends, receives;
};

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	static struct mlx5_bf *shared;
	struct ibv_pd *pd = attr->pd;
	struct mlx5_parent_domain *parent = to_mparent_domain(pd);
	struct fake_qp *fake = zeroed(sizeof(*fake));
	struct mlx5_qp *qp = &fake->qp;
	struct ibv_qp *ibqp = &qp->verbs_qp.qp;

	if (!shared)
		shared = doorbell(1);
	qp->ibv_qp = ibqp;
	ibqp->context = context;
	ibqp->qp_context = attr->qp_context;
	ibqp->pd = pd;
	ibqp->send_cq = attr->send_cq;
	ibqp->recv_cq = attr->recv_cq;
	ibqp->qp_type = attr->qp_type;
	ibqp->qp_num = 0x42;
	qp->max_inline_data = attr->cap.max_inline_data = 128;
	attr->cap.max_send_sge = attr->cap.max_recv_sge = MOST_SGE;
	/* An inline send may take several basic blocks. */
	make_wq(&qp->sq, pd, 4 * attr->cap.max_send_wr, MLX5_SEND_WQE_SHIFT);
	make_wq(&qp->rq, pd, attr->cap.max_recv_wr, 6);
	qp->sq_start = zeroed(qp->sq.wqe_cnt << MLX5_SEND_WQE_SHIFT);
	qp->sq.qend = qp->sq_start + (qp->sq.wqe_cnt << MLX5_SEND_WQE_SHIFT);
	qp->buf.buf = zeroed(qp->rq.wqe_cnt << qp->rq.wqe_shift);
	qp->db = zeroed(64);
	qp->bf = parent && parent->mtd ? parent->mtd->bf : shared;
	qp->sq_signal_bits = attr->sq_sig_all ? MLX5_WQE_CTRL_CQ_UPDATE : 0;
	qp->atomics_enabled = 1;
	qp->rsc.type = MLX5_RSC_TYPE_QP;
	qp->rsc.rsn = mlx5_store_uidx(to_mctx(context), qp);
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) {
		errno = mlx5_qp_fill_wr_pfns(qp, attr, NULL);
		if (errno)
			return NULL;
		qp->verbs_qp.comp_mask |= VERBS_QP_EX;
	}
	return ibqp;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = pd,
	};
	struct ibv_qp *qp = create_qp_ex(pd->context, &ex);

	attr->cap = ex.cap;
	return qp;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	return 0;
}

static int leave_qp(struct ibv_qp *qp)
{
	return 0;
}

static const struct verbs_context_ops ops = {
	.alloc_parent_domain = mlx5_alloc_parent_domain,
	.alloc_pd = alloc_pd,
	.alloc_td = alloc_td,
	.create_cq = create_cq,
	.create_cq_ex = create_cq_ex,
	.create_qp = create_qp,
	.create_qp_ex = create_qp_ex,
	.dealloc_pd = leave_pd,
	.dealloc_td = leave_td,
	.dereg_mr = leave_mr,
	.destroy_cq = leave_cq,
	.destroy_qp = leave_qp,
	.modify_qp = modify_qp,
	.poll_cq = mlx5_poll_cq_v1,
	.post_recv = mlx5_post_recv,
	.post_send = mlx5_post_send,
	.query_device_ex = query_device,
	.query_port = query_port,
	.reg_mr = reg_mr,
};

static struct verbs_context *alloc_context(struct ibv_device *ibdev, int cmd_fd, void *private_data)
{
	struct mlx5_context *context;

	context = verbs_init_and_alloc_context(ibdev, cmd_fd, context, ibv_ctx, RDMA_DRIVER_MLX5);
	if (!context)
		return NULL;
	context->cqe_version = 1;
	context->prefer_bf = 1;
	context->bf_reg_size = 2 * BF_SIZE;
	pthread_mutex_init(&context->uidx_table_mutex, NULL);
	verbs_set_ops(&context->ibv_ctx, &ops);
	return &context->ibv_ctx;
}

static const struct verbs_device_ops device_ops = { .name = "mlx5", .alloc_context = alloc_context };

/* A context of a device that is not there. */
struct ibv_context *fake_open(void)
{
	device.ops = &device_ops;
	strcpy(device.device.name, "mlx5_fake");
	/* Hardware: any path that is there and none of a virtual device. */
	strcpy(device.device.ibdev_path, "/sys/devices/system");
	return ibv_open_device(&device.device);
}

/* What a C program has for extended posting and polling: a queue pair, and its completion queue with
 * the device's clock. */
struct ibv_qp *fake_create_ex(struct ibv_pd *pd, int is_single_threaded)
{
	struct ibv_cq_init_attr_ex cq = {
		.cqe = 1024,
		.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP,
		.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
		.flags = is_single_threaded ? IBV_CREATE_CQ_ATTR_SINGLE_THREADED : 0,
	};
	struct ibv_qp_init_attr_ex qp = {
		.cap = { .max_send_wr = 256, .max_recv_wr = 256, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND,
	};
	struct ibv_cq_ex *polled = ibv_create_cq_ex(pd->context, &cq);
	struct ibv_qp *posted;

	if (!polled)
		abort();
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(polled);
	posted = ibv_create_qp_ex(pd->context, &qp);
	if (!posted || (void *)ibv_qp_to_qp_ex(posted) != posted)
		abort();
	return posted;
}

static void complete(struct mlx5_cq *cq, uint32_t *producer, struct mlx5_cqe64 cqe)
{
	uint32_t count = cq->verbs_cq.cq.cqe + 1;
	struct mlx5_cqe64 *at = (struct mlx5_cqe64 *)cq->buf_a.buf + (*producer & (count - 1));

	cqe.op_own |= !!(*producer & count);
	cqe.timestamp = htobe64(*producer + 1);
	*at = cqe;
	++*producer;
}

/* The device completes all that was posted to one queue pair, into its one completion queue. Returns
 * the number of completions. Of a receive it says that 64 bytes came. */
int fake_complete(struct ibv_qp *ibqp)
{
	struct fake_qp *fake = (struct fake_qp *)to_mqp(ibqp);
	struct mlx5_qp *qp = &fake->qp;
	struct mlx5_cq *cq = to_mcq(ibqp->send_cq);
	/* Everything before was polled. */
	uint32_t producer = cq->cons_index, before = producer;
	struct mlx5_cqe64 cqe = { .srqn_uidx = htobe32(qp->rsc.rsn) };

	while (fake->sends != qp->sq.cur_post) {
		unsigned at = fake->sends & (qp->sq.wqe_cnt - 1);
		struct mlx5_wqe_ctrl_seg *wqe = qp->sq_start + (at << MLX5_SEND_WQE_SHIFT);
		unsigned blocks = ((be32toh(wqe->qpn_ds) & 0x3f) + 3) / 4;

		cqe.op_own = MLX5_CQE_REQ << 4;
		cqe.wqe_counter = htobe16(fake->sends);
		cqe.sop_drop_qpn = htobe32((be32toh(wqe->opmod_idx_opcode) & 0xff) << 24 | ibqp->qp_num);
		if (wqe->fm_ce_se & MLX5_WQE_CTRL_CQ_UPDATE)
			complete(cq, &producer, cqe);
		fake->sends += blocks;
	}
	for (; fake->receives != qp->rq.head; fake->receives++) {
		cqe.op_own = MLX5_CQE_RESP_SEND << 4;
		cqe.wqe_counter = htobe16(fake->receives);
		cqe.byte_cnt = htobe32(64);
		cqe.sop_drop_qpn = htobe32(ibqp->qp_num);
		complete(cq, &producer, cqe);
	}
	return producer - before;
}
