/* What the measured C works on, as a C program would hold it. */
#ifndef FORM_H
#define FORM_H

#include <stdint.h>

#include <infiniband/verbs.h>

enum { LEN = 64, PAYLOAD = 16, DEPTH = 64, BATCH = 16, ROUNDS = 32, REMOTE_ADDR = 0x100000, REMOTE_KEY = 0x4242 };

/* A registered buffer; a wr_id is the address of one. */
struct buf {
	struct ibv_sge sge;
};

struct form {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct buf bufs[BATCH];
	/* What is sent inline. */
	const void *payload;
	/* What polls write, as other programs keep it too. */
	uint64_t ids[BATCH];
};

#endif
