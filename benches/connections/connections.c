/* Connects RC queue pairs in pairs, and destroys them: "connections DEVICE GID-INDEX COUNT". Makes the same calls as
 * src/main.rs; connections.sh counts the system calls of both. */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 1000

static void need(int ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid, uint8_t gid_index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
	};

	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
	     "INIT");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .rq_psn = 7,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .port_num = 1, .is_global = 1,
			     .grh = { .dgid = *gid, .sgid_index = gid_index, .hop_limit = 64 } },
	};
	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				      IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				      IBV_QP_MIN_RNR_TIMER) == 0, "RTR");
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .sq_psn = 7, .timeout = 14, .retry_cnt = 7,
				     .rnr_retry = 7, .max_rd_atomic = 1 };
	need(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) == 0, "RTS");
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	need(list != NULL, "ibv_get_device_list");
	for (int i = 0; list[i] && !context; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	need(context != NULL, "ibv_open_device");
	return context;
}

int main(int argc, char **argv)
{
	static struct ibv_qp *qps[MOST];

	if (argc != 4)
		return fprintf(stderr, "usage: connections DEVICE GID-INDEX COUNT\n"), 2;
	int count = atoi(argv[3]);
	uint8_t gid_index = atoi(argv[2]);
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	union ibv_gid gid;

	need(pd != NULL && count <= MOST && count % 2 == 0, "a domain, and an even count");
	need(ibv_query_gid(context, 1, gid_index, &gid) == 0, "ibv_query_gid");
	struct ibv_cq *cq = ibv_create_cq(context, count * 10, NULL, NULL, 0);
	need(cq != NULL, "ibv_create_cq");
	struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1,
						  .max_recv_sge = 1, .max_inline_data = 64 } };
	for (int i = 0; i < count; i++) {
		struct ibv_qp_init_attr asked = init;

		qps[i] = ibv_create_qp(pd, &asked);
		need(qps[i] != NULL, "ibv_create_qp");
	}
	for (int i = 0; i < count; i++)
		connect_to(qps[i], qps[i ^ 1]->qp_num, &gid, gid_index);
	for (int i = 0; i < count; i++)
		need(ibv_destroy_qp(qps[i]) == 0, "ibv_destroy_qp");
	need(ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0, "the end");
	return 0;
}
