/* Messages a second: RDMA WRITEs from one queue pair to another of the same device, in chains.
 *
 *     rate DEVICE GID-INDEX MESSAGES CHAIN polled|events
 *
 * prints the seconds that it took. src/main.rs does the same, call for call: a window of 64 work requests, only the
 * last of a chain signaled, polls of 16.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <infiniband/verbs.h>

enum { WINDOW = 64, SIZE = 64, LONGEST = 16 };

static void need(int ok, const char *what)
{
	if (!ok) {
		fprintf(stderr, "rate: %s failed\n", what);
		exit(1);
	}
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	need(list != NULL, "ibv_get_device_list");
	for (; *list; list++)
		if (strcmp(ibv_get_device_name(*list), name) == 0)
			return ibv_open_device(*list);
	return NULL;
}

static struct ibv_qp *create(struct ibv_pd *pd, struct ibv_cq *cq, int depth)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &attr);

	need(qp != NULL, "ibv_create_qp");
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, int gid_index)
{
	union ibv_gid gid;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};

	need(ibv_query_gid(qp->context, 1, gid_index, &gid) == 0, "ibv_query_gid");
	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
	     "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .port_num = 1, .is_global = 1,
			     .grh = { .dgid = gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					      IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

/* Completions that are there; with a channel, waits until there is one. */
static int poll(struct ibv_cq *cq, struct ibv_wc *wc, int events)
{
	for (;;) {
		struct ibv_cq *woken;
		void *context;
		int n = ibv_poll_cq(cq, 16, wc);

		need(n >= 0, "ibv_poll_cq");
		if (n > 0 || !events)
			return n;
		need(ibv_req_notify_cq(cq, 0) == 0, "ibv_req_notify_cq");
		n = ibv_poll_cq(cq, 16, wc);
		need(n >= 0, "ibv_poll_cq");
		if (n > 0)
			return n;
		need(ibv_get_cq_event(cq->channel, &woken, &context) == 0, "ibv_get_cq_event");
		ibv_ack_cq_events(woken, 1);
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
	static char data[WINDOW][SIZE], target[SIZE];

	need(argc == 6, "usage: rate DEVICE GID-INDEX MESSAGES CHAIN polled|events;");
	int gid_index = atoi(argv[2]), messages = atoi(argv[3]), chain = atoi(argv[4]);
	int events = strcmp(argv[5], "events") == 0;
	need(chain >= 1 && chain <= LONGEST && messages % chain == 0, "chain");

	struct ibv_context *context = open_device(argv[1]);
	need(context != NULL, "ibv_open_device");
	struct ibv_pd *pd = ibv_alloc_pd(context);
	need(pd != NULL, "ibv_alloc_pd");
	struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
	need(channel != NULL, "ibv_create_comp_channel");
	struct ibv_cq *cq = ibv_create_cq(context, WINDOW + 3, NULL, events ? channel : NULL, 0);
	struct ibv_cq *there_cq = ibv_create_cq(context, 8, NULL, NULL, 0);
	need(cq && there_cq, "ibv_create_cq");
	struct ibv_qp *here = create(pd, cq, WINDOW), *there = create(pd, there_cq, 1);
	connect_to(here, there->qp_num, gid_index);
	connect_to(there, here->qp_num, gid_index);
	struct ibv_mr *from = ibv_reg_mr(pd, data, sizeof(data), IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *to = ibv_reg_mr(pd, target, SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	need(from && to, "ibv_reg_mr");

	int posted = 0, done = 0;
	double start = now();
	while (done < messages) {
		struct ibv_wc wc[16];

		while (posted < messages && posted - done <= WINDOW - chain) {
			struct ibv_send_wr wr[LONGEST], *bad;
			struct ibv_sge sge[LONGEST];

			for (int i = 0; i < chain; i++) {
				sge[i] = (struct ibv_sge){ .addr = (uintptr_t)data[(posted + i) % WINDOW],
							   .length = SIZE, .lkey = from->lkey };
				wr[i] = (struct ibv_send_wr){
					.wr_id = chain, .next = i + 1 < chain ? &wr[i + 1] : NULL,
					.sg_list = &sge[i], .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.send_flags = i + 1 < chain ? 0 : IBV_SEND_SIGNALED,
					.wr.rdma = { .remote_addr = (uintptr_t)target, .rkey = to->rkey },
				};
			}
			need(ibv_post_send(here, wr, &bad) == 0, "ibv_post_send");
			posted += chain;
		}
		int n = poll(cq, wc, events);
		for (int i = 0; i < n; i++) {
			need(wc[i].status == IBV_WC_SUCCESS, "a work request");
			done += wc[i].wr_id;
		}
	}
	printf("%.6f\n", now() - start);
	return 0;
}
