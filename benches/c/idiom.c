/* Bookkeeping by the caller, in idiomatic C: designated initialisers, as in the manual pages. */
#include "env.h"
#include "repeat.h"

#define SGE(i) \
	{ .addr = e->pieces[i].addr, .length = e->pieces[i].length, .lkey = e->pieces[i].lkey }
#define RDMA .wr.rdma = { .remote_addr = e->to.addr, .rkey = e->to.rkey }
#define FROM .wr.rdma = { .remote_addr = e->from.addr, .rkey = e->from.rkey }

#define POST(wr) \
	struct ibv_send_wr *bad; \
	int ret = ibv_post_send(e->qp, wr, &bad); \
	if (UNLIKELY(ret)) \
		return failed(wr, bad, ret); \
	return 0

#define ONE(name, data, ...) \
	int idiom_##name(struct env *e) \
	{ \
		struct ibv_sge sge = data; \
		struct ibv_send_wr wr = { \
			.wr_id = e->ids[0], .sg_list = &sge, .num_sge = 1, __VA_ARGS__ \
		}; \
		POST(&wr); \
	}

ONE(send, SGE(0), .opcode = IBV_WR_SEND)
ONE(send_imm, SGE(0), .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(e->imm_data))
ONE(write, SGE(0), .opcode = IBV_WR_RDMA_WRITE, RDMA)
ONE(write_imm, SGE(0), .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = htonl(e->imm_data), RDMA)
ONE(read, SGE(0), .opcode = IBV_WR_RDMA_READ, FROM)
ONE(cas, SGE(0), .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
    .wr.atomic = { .remote_addr = e->cell.addr, .rkey = e->cell.rkey, .compare_add = e->compare,
		   .swap = e->swap })
ONE(faa, SGE(0), .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
    .wr.atomic = { .remote_addr = e->cell.addr, .rkey = e->cell.rkey, .compare_add = e->add })
ONE(inline_send, SGE(0), .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE)
ONE(inline_write, SGE(0), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_INLINE, RDMA)
ONE(ud_send, SGE(0), .opcode = IBV_WR_SEND,
    .wr.ud = { .ah = e->to_ah.ah, .remote_qpn = e->remote_qpn, .remote_qkey = e->remote_qkey })

#define GATHERED(name, n, ...) \
	int idiom_##name(struct env *e) \
	{ \
		struct ibv_sge sge[n] = { __VA_ARGS__ }; \
		struct ibv_send_wr wr = { \
			.wr_id = e->ids[0], .sg_list = sge, .num_sge = n, \
			.opcode = IBV_WR_RDMA_WRITE, RDMA \
		}; \
		POST(&wr); \
	}

GATHERED(sge2, 2, SGE(0), SGE(1))
GATHERED(sge4, 4, SGE(0), SGE(1), SGE(2), SGE(3))

#define SGE_OF(i) SGE(i),
#define WR_OF(i) \
	{ .wr_id = e->ids[i], .next = i + 1 < COUNT ? &wr[i + 1] : NULL, .sg_list = &sge[i], \
	  .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, RDMA },
#define RECV_OF(i) \
	{ .wr_id = e->ids[i], .next = i + 1 < COUNT ? &wr[i + 1] : NULL, .sg_list = &sge[i], \
	  .num_sge = 1 },

#define CHAIN(n) \
	int idiom_chain##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n] = { TIMES_##n(SGE_OF) }; \
		struct ibv_send_wr wr[n] = { TIMES_##n(WR_OF) }; \
		POST(wr); \
	}
CHAIN(2)
CHAIN(4)
CHAIN(8)
CHAIN(16)
CHAIN(32)

int idiom_mixed4(struct env *e)
{
	struct ibv_sge sge[4] = { SGE(0), SGE(1), SGE(2), SGE(3) };
	struct ibv_send_wr wr[4] = {
		{ .wr_id = e->ids[0], .next = &wr[1], .sg_list = &sge[0], .num_sge = 1,
		  .opcode = IBV_WR_RDMA_WRITE, RDMA },
		{ .wr_id = e->ids[1], .next = &wr[2], .sg_list = &sge[1], .num_sge = 1,
		  .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE },
		{ .wr_id = e->ids[2], .next = &wr[3], .sg_list = &sge[2], .num_sge = 1,
		  .opcode = IBV_WR_RDMA_READ, FROM },
		{ .wr_id = e->ids[3], .sg_list = &sge[3], .num_sge = 1,
		  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		  .wr.atomic = { .remote_addr = e->cell.addr, .rkey = e->cell.rkey,
				 .compare_add = e->add } },
	};
	POST(wr);
}

INLINE int list(struct env *e, uint32_t n)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];
	uint32_t i;

	if (n == 0)
		return 0;
	for (i = 0; i < n && i < 16; i++) {
		sge[i] = (struct ibv_sge)SGE(i);
		wr[i] = (struct ibv_send_wr){ .wr_id = e->ids[i], .next = &wr[i + 1],
					      .sg_list = &sge[i], .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE, RDMA };
	}
	wr[i - 1].next = NULL;
	POST(wr);
}

int idiom_kinds4of16(struct env *e)
{
	struct ibv_sge sge[16];
	struct ibv_send_wr wr[16];
	uint32_t i, n = e->counts[1];

	if (n == 0)
		return 0;
	for (i = 0; i < n && i < 16; i++) {
		sge[i] = (struct ibv_sge)SGE(i);
		wr[i] = (struct ibv_send_wr){ .wr_id = e->ids[i], .next = &wr[i + 1],
					      .sg_list = &sge[i], .num_sge = 1,
					      .opcode = IBV_WR_RDMA_WRITE, RDMA };
	}
	wr[i - 1].next = NULL;
	wr[i - 1].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	wr[i - 1].imm_data = htonl(e->imm_data);
	POST(wr);
}

int idiom_sges(struct env *e)
{
	struct ibv_send_wr wr = {
		.wr_id = e->ids[0], .sg_list = e->pieces, .num_sge = e->counts[1],
		.opcode = IBV_WR_RDMA_WRITE, RDMA
	};
	POST(&wr);
}

#define LIST(n, i) \
	int idiom_list##n##of16(struct env *e) \
	{ \
		return list(e, e->counts[i]); \
	}
LIST(1, 0)
LIST(4, 1)
LIST(16, 2)

#define RECEIVES(n) \
	int idiom_recv##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n] = { TIMES_##n(SGE_OF) }; \
		struct ibv_recv_wr wr[n] = { TIMES_##n(RECV_OF) }; \
		struct ibv_recv_wr *bad; \
		int ret = ibv_post_recv(e->qp, wr, &bad); \
		if (UNLIKELY(ret)) \
			return failed(wr, bad, ret); \
		return 0; \
	}
RECEIVES(1)
RECEIVES(16)

#define SHARED(n) \
	int idiom_srq##n(struct env *e) \
	{ \
		enum { COUNT = n }; \
		struct ibv_sge sge[n] = { TIMES_##n(SGE_OF) }; \
		struct ibv_recv_wr wr[n] = { TIMES_##n(RECV_OF) }; \
		struct ibv_recv_wr *bad; \
		int ret = ibv_post_srq_recv(e->srq, wr, &bad); \
		if (UNLIKELY(ret)) \
			return failed(wr, bad, ret); \
		return 0; \
	}
SHARED(1)
SHARED(16)

#define POLL(n) \
	int idiom_poll##n(struct env *e) \
	{ \
		struct ibv_wc wc[n]; \
		int i, got = ibv_poll_cq(e->cq, n, wc); \
		if (got < 0) \
			return failed(wc, NULL, got); \
		for (i = 0; i < got; i++) { \
			if (wc[i].status != IBV_WC_SUCCESS) \
				return failed(&wc[i], NULL, wc[i].status); \
			e->ids[i] = wc[i].wr_id; \
		} \
		return 0; \
	}
POLL(1)
POLL(16)

int idiom_cycle(struct env *e)
{
	int ret = idiom_write(e);

	return ret ? ret : idiom_poll1(e);
}
