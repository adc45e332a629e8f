/* The environment of the C twins: the same objects and buffers as in the Rust forms, as a C program would store them. */
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

/* A queue pair, for the twins of best.c: the free entries of its send and receive queue. */
struct end {
	struct ibv_qp *qp;
	uint32_t credit[2];
	uint32_t pd, cap;
};

/* A buffer. Its address is the wr_id. C0 uses only the first field. */
struct buf {
	struct ibv_sge sge;
	uint32_t capacity;
	uint32_t pd;
	union {
		/* The counter of the queue that it was posted to last. */
		uint32_t *counter;
		/* For best.c: the queue pair that it was posted to last. */
		struct end *end;
	};
	struct buf *next;
	/* That queue's mark, and whether the device owns the buffer. */
	uint32_t state;
	/* For best.c: the list of an arena, and the element of a receive. */
	uint32_t lines;
	struct ibv_sge whole;
} __attribute__((aligned(64)));

/* The bookkeeping of one direction of a queue pair. C1 uses only the ring, C2 uses all fields. */
struct queue {
	struct buf **slots;
	/* C2: the slot of the next work request, or one past the last, and the number that fit without reading the counter. */
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

/* The name of an address handle, as a program stores it. */
struct ah_name {
	struct ibv_ah *ah;
	uint32_t index, key;
};

struct env {
	struct ibv_qp *qp;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ah_name to_ah;
	/* The keys of the queue pair's address handles; 0 if there is no handle. */
	const uint32_t *ah_keys;
	uint32_t ah_mask;
	/* The targets of WRITEs, READs and atomics. C2 also uses the number of bytes there (not 0). */
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
	/* The destinations of datagrams. */
	struct ibv_ah *peers[64];
	/* Two more queue pairs, one of them with another completion queue. */
	struct ibv_qp *more[2];
	struct ibv_qp *answers;
	struct ibv_cq *answered;
	/* The length and the offset of a copy. */
	uint64_t lengths[2];
	/* The offset of a piece in its region. */
	uint64_t offset;
	uint8_t bytes[LONG];
	/* The buffer of an arena. */
	struct buf *in_arena;
	/* A queue that is polled for extra fields. */
	struct ibv_cq_ex *timed;
	/* For best.c: the queue pairs, and a region, which is sent in pieces. */
	struct end ends[2];
	struct buf *region;
};

/* The error path of a post, which is not measured. */
COLD int failed(const void *wr, const void *bad, int err);

#endif
