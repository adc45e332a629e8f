/* Builds work requests field by field: the fields that the opcode reads, and fields that make the code shorter. */
#ifndef FIELDS_H
#define FIELDS_H

#include "env.h"

INLINE void head(struct ibv_send_wr *wr, struct ibv_sge *sge, int num_sge, enum ibv_wr_opcode op,
		 unsigned int flags)
{
	wr->sg_list = sge;
	wr->num_sge = num_sge;
	wr->opcode = op;
	wr->send_flags = flags;
#ifdef __clang__
	/* This lets the compiler write constants with one store of 16 bytes (as in the crate). gcc does not use it. */
	wr->imm_data = 0;
#endif
}

INLINE void rdma(struct ibv_send_wr *wr, const struct env *e)
{
	wr->wr.rdma.remote_addr = e->to.addr;
	wr->wr.rdma.rkey = e->to.rkey;
}

INLINE void emit_send(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	(void)e;
	head(wr, sge, 1, IBV_WR_SEND, 0);
}

INLINE void emit_send_imm(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_SEND_WITH_IMM, 0);
	wr->imm_data = htonl(e->imm_data);
}

INLINE void emit_write(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_RDMA_WRITE, 0);
	rdma(wr, e);
}

INLINE void emit_write_imm(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 0);
	wr->imm_data = htonl(e->imm_data);
	rdma(wr, e);
}

INLINE void emit_read(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_RDMA_READ, 0);
	wr->wr.rdma.remote_addr = e->from.addr;
	wr->wr.rdma.rkey = e->from.rkey;
}

INLINE void emit_cas(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_ATOMIC_CMP_AND_SWP, 0);
	wr->wr.atomic.remote_addr = e->cell.addr;
	wr->wr.atomic.rkey = e->cell.rkey;
	wr->wr.atomic.compare_add = e->compare;
	wr->wr.atomic.swap = e->swap;
}

INLINE void emit_faa(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0);
	wr->wr.atomic.remote_addr = e->cell.addr;
	wr->wr.atomic.rkey = e->cell.rkey;
	wr->wr.atomic.compare_add = e->add;
}

INLINE void emit_ud_send(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_SEND, 0);
	wr->wr.ud.ah = e->to_ah.ah;
	wr->wr.ud.remote_qpn = e->remote_qpn;
	wr->wr.ud.remote_qkey = e->remote_qkey;
}

INLINE void payload(struct ibv_sge *sge, const struct env *e)
{
	sge->addr = (uintptr_t)e->payload;
	sge->length = PAYLOAD;
	sge->lkey = 0;
}

INLINE void emit_inline_send(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	(void)e;
	head(wr, sge, 1, IBV_WR_SEND, IBV_SEND_INLINE);
}

INLINE void emit_inline_write(struct ibv_send_wr *wr, struct ibv_sge *sge, const struct env *e)
{
	head(wr, sge, 1, IBV_WR_RDMA_WRITE, IBV_SEND_INLINE);
	rdma(wr, e);
}

#endif
