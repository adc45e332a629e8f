/* The C side of tests/imm_interop.rs: immediates must have one byte order in both languages.
 *
 * Usage: imm_peer DEVICE GID_INDEX
 * Standard input and output are the connection to the Rust side, one line a message:
 *     both:  QPN GID ADDRESS RKEY     where each can be reached (hexadecimal)
 *     both:  ready                    connected, and receives are posted
 *     C:     window RKEY              both immediates arrived as they should; a type 2 window is open
 *     C:     invalidated              a SEND_WITH_INV ended its key
 */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PORT = 1, PSN = 0, BYTES = 64, SECONDS = 60 };

static const uint32_t SEND_IMM = 0x01020304;
static const uint32_t WRITE_IMM = 0xa0b0c0d0;

static _Noreturn void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void expect(int holds, const char *what)
{
	if (!holds) {
		fprintf(stderr, "imm_peer: %s\n", what);
		exit(1);
	}
}

static struct ibv_context *open_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = NULL;

	if (!list)
		fail("ibv_get_device_list");
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context)
		fail(name);
	return context;
}

static void poll_one(struct ibv_cq *cq, struct ibv_wc *wc)
{
	time_t start = time(NULL);

	for (;;) {
		int n = ibv_poll_cq(cq, 1, wc);

		expect(n >= 0, "ibv_poll_cq failed");
		if (n > 0)
			break;
		expect(time(NULL) - start < SECONDS, "no completion came");
	}
	if (wc->status != IBV_WC_SUCCESS) {
		fprintf(stderr, "imm_peer: %s\n", ibv_wc_status_str(wc->status));
		exit(1);
	}
}

static void connect_qp(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid, uint8_t index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS))
		fail("RESET -> INIT");
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTR;
	attr.path_mtu = IBV_MTU_1024;
	attr.dest_qp_num = peer;
	attr.rq_psn = PSN;
	attr.max_dest_rd_atomic = 1;
	attr.min_rnr_timer = 12;
	attr.ah_attr.is_global = 1;
	attr.ah_attr.port_num = PORT;
	attr.ah_attr.grh.dgid = *gid;
	attr.ah_attr.grh.sgid_index = index;
	attr.ah_attr.grh.hop_limit = 64;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER))
		fail("INIT -> RTR");
	memset(&attr, 0, sizeof(attr));
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = PSN;
	attr.timeout = 18; /* 1 s: a busy machine is not a lost peer */
	attr.retry_cnt = 6;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 1;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		fail("RTR -> RTS");
}

static void post_recv(struct ibv_qp *qp, struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, BYTES, mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	expect(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv failed");
}

static void post_imm(struct ibv_qp *qp, struct ibv_mr *mr, enum ibv_wr_opcode opcode, uint32_t imm,
		     uint64_t address, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, 8, mr->lkey };
	struct ibv_send_wr wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = opcode,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = htonl(imm),
		.wr.rdma = { .remote_addr = address, .rkey = rkey },
	}, *bad;

	expect(!ibv_post_send(qp, &wr, &bad), "ibv_post_send failed");
}

/* A type 2 window over all of the region. */
static uint32_t open_window(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_cq *cq,
			    struct ibv_mr *mr)
{
	struct ibv_mw *mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_wc wc;

	if (!mw)
		fail("ibv_alloc_mw");
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info.mr = mr;
	wr.bind_mw.bind_info.addr = (uintptr_t)mr->addr;
	wr.bind_mw.bind_info.length = BYTES;
	wr.bind_mw.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
	expect(!ibv_post_send(qp, &wr, &bad), "ibv_post_send refused to bind a window");
	poll_one(cq, &wc);
	return wr.bind_mw.rkey;
}

static void read_ready(void)
{
	char line[16];

	expect(fgets(line, sizeof(line), stdin) && !strcmp(line, "ready\n"), "the peer is not ready");
}

static void receive(struct ibv_cq *cq, enum ibv_wc_opcode opcode, uint32_t imm)
{
	struct ibv_wc wc;

	poll_one(cq, &wc);
	expect(wc.opcode == opcode, "another opcode arrived");
	expect(wc.wc_flags & IBV_WC_WITH_IMM, "no immediate arrived");
	expect(ntohl(wc.imm_data) == imm, "the immediate has another byte order");
}

int main(int argc, char **argv)
{
	uint32_t peer_qpn, peer_rkey;
	uint64_t peer_address;
	union ibv_gid gid, peer_gid;
	char hex[33], line[128];

	expect(argc == 3, "usage: imm_peer DEVICE GID_INDEX");
	uint8_t index = (uint8_t)atoi(argv[2]);
	struct ibv_context *context = open_device(argv[1]);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	struct ibv_cq *sends = ibv_create_cq(context, 8, NULL, NULL, 0);
	struct ibv_cq *receives = ibv_create_cq(context, 8, NULL, NULL, 0);
	char *memory = calloc(1, BYTES);
	char *target = calloc(1, BYTES);

	if (!pd || !sends || !receives || !memory || !target)
		fail("set-up");
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, BYTES, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_mr *open = ibv_reg_mr(pd, target, BYTES,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						 IBV_ACCESS_MW_BIND);
	struct ibv_qp_init_attr init = {
		.send_cq = sends,
		.recv_cq = receives,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);

	if (!mr || !open || !qp || ibv_query_gid(context, PORT, index, &gid))
		fail("set-up");
	for (int i = 0; i < 16; i++)
		sprintf(hex + 2 * i, "%02x", gid.raw[i]);
	printf("%x %s %" PRIxPTR " %x\n", qp->qp_num, hex, (uintptr_t)target, open->rkey);
	fflush(stdout);
	expect(fgets(line, sizeof(line), stdin) != NULL, "the peer is gone");
	expect(sscanf(line, "%x %32s %" SCNx64 " %x", &peer_qpn, hex, &peer_address,
		      &peer_rkey) == 4,
	       "the peer's address is invalid");
	for (int i = 0; i < 16; i++) {
		unsigned int byte;

		expect(sscanf(hex + 2 * i, "%2x", &byte) == 1, "the peer's GID is no GID");
		peer_gid.raw[i] = (uint8_t)byte;
	}
	connect_qp(qp, peer_qpn, &peer_gid, index);
	post_recv(qp, mr);
	post_recv(qp, mr);
	puts("ready");
	fflush(stdout);
	read_ready();

	struct ibv_wc wc;

	receive(receives, IBV_WC_RECV, SEND_IMM);
	receive(receives, IBV_WC_RECV_RDMA_WITH_IMM, WRITE_IMM);
	expect(!memcmp(target, "rust to ", 8), "the written bytes are not there");
	memcpy(memory, "c to rus", 8);
	post_imm(qp, mr, IBV_WR_SEND_WITH_IMM, SEND_IMM, 0, 0);
	poll_one(sends, &wc);
	post_imm(qp, mr, IBV_WR_RDMA_WRITE_WITH_IMM, WRITE_IMM, peer_address, peer_rkey);
	poll_one(sends, &wc);

	post_recv(qp, mr);
	uint32_t window = open_window(pd, qp, sends, open);

	printf("window %x\n", window);
	fflush(stdout);
	poll_one(receives, &wc);
	expect(wc.opcode == IBV_WC_RECV, "another opcode arrived");
	/* Soft-RoCE hands on the kernel's number of the flag, which is another flag's here. */
	expect(wc.wc_flags & (IBV_WC_WITH_INV | IBV_WC_IP_CSUM_OK), "no key was invalidated");
	expect(wc.invalidated_rkey == window, "another key was invalidated");
	expect(!memcmp(target, "windowed", 8), "the bytes written by the window are not there");
	puts("invalidated");
	fflush(stdout);
	/* The peer sees that the key is of no use any more, and this end with it. */
	expect(fgets(line, sizeof(line), stdin) != NULL, "the peer is gone");
	return 0;
}
