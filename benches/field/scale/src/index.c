/* The same in C: an array of queue pairs, whose index is the wr_id; room is counted, as a program must
 * that does not want to overrun its queues. Work requests are filled field by field. */
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "rts.h"

enum { LEN = 16, DEPTH = 16, REMOTE_ADDR = 0x100000, REMOTE_KEY = 0x4242 };

struct entry {
	struct ibv_qp *qp;
	uint32_t room;
};

struct index {
	struct entry *entries;
	struct ibv_cq *cq;
	char *memory;
	uint32_t lkey;
};

struct index *index_new(uint32_t pairs)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;
	struct index *index = calloc(1, sizeof(*index));

	if (!pd || !index)
		abort();
	index->entries = calloc(pairs, sizeof(*index->entries));
	index->memory = calloc(pairs, LEN);
	index->cq = ibv_create_cq(context, pairs * DEPTH * 2, NULL, NULL, 0);
	struct ibv_mr *mr = ibv_reg_mr(pd, index->memory, (size_t)pairs * LEN, IBV_ACCESS_LOCAL_WRITE);
	if (!index->entries || !index->memory || !index->cq || !mr)
		abort();
	index->lkey = mr->lkey;
	struct ibv_qp_init_attr attr = {
		.send_cq = index->cq, .recv_cq = index->cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	for (uint32_t i = 0; i < pairs; i++) {
		struct entry *entry = &index->entries[i];
		*entry = (struct entry){ .qp = ibv_create_qp(pd, &attr), .room = DEPTH };
		if (!entry->qp)
			abort();
		to_rts(entry->qp);
	}
	return index;
}

int index_post(struct index *index, uint32_t turn, uint32_t buf)
{
	struct entry *entry = &index->entries[turn];
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	if (!entry->room)
		return 0;
	entry->room--;
	sge.addr = (uintptr_t)index->memory + (size_t)buf * LEN;
	sge.length = LEN;
	sge.lkey = index->lkey;
	wr.wr_id = turn;
	wr.next = NULL;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.send_flags = 0;
	wr.wr.rdma.remote_addr = REMOTE_ADDR;
	wr.wr.rdma.rkey = REMOTE_KEY;
	return !ibv_post_send(entry->qp, &wr, &bad);
}

int index_poll(struct index *index)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(index->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return 0;
	index->entries[wc.wr_id].room++;
	return 1;
}

int index_again(struct index *index)
{
	struct ibv_wc wc;

	if (ibv_poll_cq(index->cq, 1, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		return 0;
	index->entries[wc.wr_id].room++;
	return index_post(index, wc.wr_id, wc.wr_id);
}
