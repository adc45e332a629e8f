/* A provider that records the posted work requests and completes them. Every form is measured on it.
 *
 * It writes each posted work request to a ring in one fixed form, with only the fields that the opcode
 * reads, so that two rings are equal byte for byte exactly when a device would have seen the same.
 * wr_ids, which may differ, go to a separate ring.
 */
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>

#include <infiniband/verbs.h>
#include <valgrind/callgrind.h>

enum { IMAGE = 1 << 18, PENDING = 1 << 14, MASK = PENDING - 1 };

static unsigned char image[IMAGE];
static size_t image_len;
static struct {
	uint64_t wr_id;
	uint32_t qp_num;
	uint32_t opcode;
	uint32_t byte_len;
} pending[PENDING];
static uint32_t first, end, signal_all;

/* While completions are held, completions from `shown` on become visible when their event is taken, as for a program that
 * waits for them, and calls of the provider are recorded. */
static uint32_t shown, holds;
static struct ibv_cq *armed;
static int has_fired, event_fd = -1;
/* Their entries in the image. */
enum { POLLED = 0x10, ARMED, TAKEN };

/* Our own loops (built with -fno-builtin), because the C library's instructions are counted, and the stub's are not. */
static void put(const void *bytes, size_t len)
{
	const unsigned char *from = bytes;

	if (image_len + len > IMAGE)
		abort();
	while (len--)
		image[image_len++] = *from++;
}

/* In one step, because most records are numbers. */
static void put_u64(uint64_t value)
{
	typedef uint64_t __attribute__((aligned(1), may_alias)) word;

	if (image_len + sizeof(value) > IMAGE)
		abort();
	*(word *)&image[image_len] = value;
	image_len += sizeof(value);
}

static uint32_t put_sges(const struct ibv_sge *sge, int n, int is_inline)
{
	uint32_t total = 0;
	int i;

	put_u64(n);
	for (i = 0; i < n; i++) {
		total += sge[i].length;
		put_u64(sge[i].length);
		if (is_inline) {
			put((const void *)(uintptr_t)sge[i].addr, sge[i].length);
		} else {
			put_u64(sge[i].addr);
			put_u64(sge[i].lkey);
		}
	}
	return total;
}

/* A system call without the C library, whose instructions are counted. */
static long call(long number, long a, const void *b, long c)
{
	long ret;

	__asm__ volatile("syscall" : "=a"(ret) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
	return ret;
}

static void note(uint64_t what)
{
	if (holds)
		put_u64(what);
}

/* Sends the event of a new completion, if the queue is armed. */
static void fire(void)
{
	const uint64_t one = 1;

	if (!armed || has_fired || shown == end)
		return;
	has_fired = 1;
	if (call(SYS_write, event_fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

static void complete(uint64_t wr_id, uint32_t qp_num, uint32_t opcode, uint32_t byte_len)
{
	if (end - first == PENDING)
		abort();
	pending[end & MASK].wr_id = wr_id;
	pending[end & MASK].qp_num = qp_num;
	pending[end & MASK].opcode = opcode;
	pending[end & MASK].byte_len = byte_len;
	end++;
	if (!holds)
		shown = end;
	else
		fire();
}

static uint32_t put_operands(const struct ibv_qp *qp, const struct ibv_send_wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_SEND_WITH_IMM:
		put_u64(wr->imm_data);
		/* fallthrough */
	case IBV_WR_SEND:
		if (qp->qp_type == IBV_QPT_UD) {
			put_u64((uintptr_t)wr->wr.ud.ah);
			put_u64(wr->wr.ud.remote_qpn);
			put_u64(wr->wr.ud.remote_qkey);
		}
		return IBV_WC_SEND;
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		put_u64(wr->imm_data);
		/* fallthrough */
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_READ:
		put_u64(wr->wr.rdma.remote_addr);
		put_u64(wr->wr.rdma.rkey);
		return wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		put_u64(wr->wr.atomic.swap);
		/* fallthrough */
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		put_u64(wr->wr.atomic.remote_addr);
		put_u64(wr->wr.atomic.rkey);
		put_u64(wr->wr.atomic.compare_add);
		return wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD;
	default:
		abort();
	}
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)bad;
	put_u64(1);
	for (; wr; wr = wr->next) {
		uint32_t opcode;

		put_u64(wr->opcode);
		put_u64(wr->send_flags);
		opcode = put_operands(qp, wr);
		put_sges(wr->sg_list, wr->num_sge, wr->send_flags & IBV_SEND_INLINE);
		if (signal_all || wr->send_flags & IBV_SEND_SIGNALED)
			complete(wr->wr_id, qp->qp_num, opcode, 0);
	}
	return 0;
}

static int receive(uint32_t qp_num, struct ibv_recv_wr *wr)
{
	put_u64(2);
	for (; wr; wr = wr->next) {
		uint32_t len = put_sges(wr->sg_list, wr->num_sge, 0);

		complete(wr->wr_id, qp_num, IBV_WC_RECV, len);
	}
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	return receive(qp->qp_num, wr);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)bad;
	return receive(0, wr);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int i;

	(void)cq;
	note(POLLED);
	for (i = 0; i < n && first != shown; i++, first++) {
		wc[i].vendor_err = 0;
		wc[i].wc_flags = 0;
		wc[i].wr_id = pending[first & MASK].wr_id;
		wc[i].status = IBV_WC_SUCCESS;
		wc[i].opcode = pending[first & MASK].opcode;
		wc[i].byte_len = pending[first & MASK].byte_len;
		wc[i].qp_num = pending[first & MASK].qp_num;
	}
	return i;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	note(ARMED);
	armed = cq;
	fire();
	return 0;
}

/* For a channel: the descriptor that is readable when there is an event. */
void stub_tell(int fd)
{
	event_fd = fd;
}

/* Takes an event, if there is one, and returns its queue, whose completions become visible. */
struct ibv_cq *stub_take_event(void)
{
	struct ibv_cq *cq = armed;
	uint64_t count;

	note(TAKEN);
	if (call(SYS_read, event_fd, &count, sizeof(count)) != sizeof(count))
		return NULL;
	shown = end;
	has_fired = 0;
	armed = NULL;
	return cq;
}

/* Sets whether completions are held. */
void stub_hold(uint32_t is_held)
{
	holds = is_held;
}

/* Takes over the data path of a device. */
void stub_install(struct ibv_context *context)
{
	context->ops.post_send = post_send;
	context->ops.post_recv = post_recv;
	context->ops.post_srq_recv = post_srq_recv;
	context->ops.poll_cq = poll_cq;
	context->ops.req_notify_cq = req_notify_cq;
}

/* Clears all posted and recorded work requests. Sets whether every send completes. */
void stub_reset(uint32_t all)
{
	image_len = 0;
	first = shown = end;
	signal_all = all;
}

/* Clears the records, and keeps completions that were not polled. */
void stub_forget(void)
{
	image_len = 0;
}

size_t stub_image(const unsigned char **at)
{
	*at = image;
	return image_len;
}

/* The number of completions that were not polled yet. */
uint32_t stub_pending(void)
{
	return end - first;
}

/* Makes one counted call. The instructions of the stub are left out of the sum. */
int stub_measure(int (*form)(void *), void *env)
{
	int ret;

	CALLGRIND_TOGGLE_COLLECT;
	ret = form(env);
	CALLGRIND_TOGGLE_COLLECT;
	return ret;
}

void stub_dump(const char *label)
{
	CALLGRIND_DUMP_STATS_AT(label);
}

int stub_is_counting(void)
{
	return RUNNING_ON_VALGRIND != 0;
}
