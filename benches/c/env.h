/* What the C twins work on: the same objects and buffers as the Rust forms, as a C program would hold them. */
#ifndef ENV_H
#define ENV_H

#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <infiniband/verbs.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define INLINE static inline __attribute__((always_inline))
#define COLD __attribute__((cold, noinline))

enum { MOST = 32, PAYLOAD = 16, LONG = 4096, BATCH = 16, SEND = 0, RECEIVE = 1 };

struct queue;

/* A buffer, as the handle in a wr_id names it. C0 uses the first field only. */
struct buf {
	struct ibv_sge sge;
	uint32_t capacity;
	uint32_t pd;
	/* Of the queue that it was posted to last. */
	uint32_t *counter;
	struct buf *next;
	/* That queue's mark, and whether the device has it. */
	uint32_t state;
} __attribute__((aligned(64)));

/* The books of one direction of a queue pair: C1 uses the ring, C2 all of it. */
struct queue {
	struct buf **slots;
	/* C2: the slot of the next work request, or one past the last, and how many fit without a look. */
	struct buf **at;
	/* The wr_ids of C2's ring, of the next work request and of the oldest: id, sequence number. */
	uint32_t id, tail;
	uint32_t old_id, head;
	uint32_t mask, cap;
	uint32_t room;
	uint32_t credit, seen, mark;
	uint32_t pd;
	uint32_t longest;
	uint32_t poisoned;
	/* Completions polled; the address leaves the tag bits free. */
	uint32_t completed __attribute__((aligned(64)));
};

/* The name of an address handle, as a program keeps it. */
struct ah_name {
	struct ibv_ah *ah;
	uint32_t index, key;
};

struct env {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ah_name to_ah;
	/* The address handles of the queue pair: the key of each, 0 where there is none. */
	const uint32_t *ah_keys;
	uint32_t ah_mask;
	/* Where to write, where to read, and the cell of an atomic; C2 also asks how many bytes are there (not 0). */
	struct { uint64_t addr; uint32_t rkey, len; } to, from, cell;
	uint32_t imm_data;
	uint64_t compare, swap, add;
	uint32_t remote_qpn, remote_qkey;
	uint64_t wr_id;
	/* Run-time counts: 1, 4 and 16. */
	uint32_t counts[3];
	uint8_t payload[PAYLOAD];
	struct ibv_sge pieces[MOST];
	uint64_t ids[MOST];
	struct buf *bufs[MOST];
	struct queue send, recv;
	/* A second queue pair. */
	struct ibv_qp *other;
	/* A queue pair of depth 1. */
	struct ibv_qp *shallow;
	/* Whom datagrams go to. */
	struct ibv_ah *peers[64];
	/* Two more queue pairs, and one whose completions come elsewhere. */
	struct ibv_qp *more[2];
	struct ibv_qp *answers;
	struct ibv_cq *answered;
	/* How much is copied, and to or from where. */
	uint64_t lengths[2];
	/* Where in a region a piece begins. */
	uint64_t offset;
	uint8_t bytes[LONG];
	/* Of a queue that is polled for fields. */
	struct ibv_cq_ex *timed;
};

/* What a program does with a refused post: not on the path that is measured. */
COLD int failed(const void *wr, const void *bad, int err);

#endif
