/* A request and reply service with its own bookkeeping: wr_ids are pointers, flow control is by
 * credits, and each side has one shared receive queue for all its connections. The guide's
 * page about porting a program that does its own bookkeeping walks through it; credits.rs is the port.
 *
 * Both sides are here, and their queue pairs are connected to each other on one device:
 *
 *	cc -o credits credits.c -libverbs && ./credits rxe0 1
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

enum {
	CONNS = 4,	  /* connections */
	CREDITS = 8,	  /* messages that a peer may send without hearing from us */
	SIZE = 256,	  /* bytes of a slot */
	BODY = SIZE - 16, /* bytes of a message behind its header */
	SIGNAL_EVERY = 4, /* one send in this number is signaled */
	RECVS = CONNS * CREDITS,
	DEPTH = 2 * (CREDITS + SIGNAL_EVERY), /* sends of a connection before their completion */
	SENDS = CONNS * DEPTH,
	ROUNDS = 1000, /* requests of each connection */
};

struct message {
	uint32_t credits; /* receives that the sender has posted again */
	uint32_t len;
	uint64_t seq;
	char body[BODY];
};

/* The target of a wr_id. */
struct slot {
	struct message *message;
	struct slot *next; /* in the free list, or in `unsignaled` of a connection */
	int is_send;
};

struct conn {
	struct ibv_qp *qp;
	struct side *side;
	uint32_t credits;	 /* sends that the peer has room for */
	uint32_t owed;		 /* receives posted again, of which the peer has not heard */
	struct slot *unsignaled; /* sent since the last signaled one, the newest first */
	uint32_t unsignaled_count;
	uint64_t sent, done;
};

struct side {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_mr *mr;
	struct message *memory;
	struct slot slots[RECVS + SENDS];
	struct slot *free;
	struct conn conns[CONNS];
	int is_server;
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_sge sge_of(struct side *side, struct slot *slot, uint32_t len)
{
	return (struct ibv_sge){
		.addr = (uintptr_t)slot->message, .length = len, .lkey = side->mr->lkey
	};
}

/* Posts `count` receives with one call. */
static void post_recvs(struct side *side, struct slot **slots, int count)
{
	struct ibv_recv_wr wr[RECVS], *bad;
	struct ibv_sge sge[RECVS];

	for (int i = 0; i < count; i++) {
		sge[i] = sge_of(side, slots[i], SIZE);
		wr[i] = (struct ibv_recv_wr){
			.wr_id = (uintptr_t)slots[i],
			.next = i + 1 < count ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
		};
	}
	if (count && ibv_post_srq_recv(side->srq, wr, &bad))
		die("ibv_post_srq_recv");
}

/* Sends a message, if there is a slot for it and the peer has room. */
static int send_message(struct conn *conn, uint64_t seq, const char *body, uint32_t len)
{
	struct slot *slot = conn->side->free;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;

	if (!slot || !conn->credits)
		return 0;
	conn->side->free = slot->next;
	conn->credits--;
	slot->message->credits = conn->owed;
	conn->owed = 0;
	slot->message->len = len;
	slot->message->seq = seq;
	memcpy(slot->message->body, body, len);
	slot->next = conn->unsignaled;
	conn->unsignaled = slot;
	conn->unsignaled_count++;

	sge = sge_of(conn->side, slot, 16 + len);
	wr = (struct ibv_send_wr){
		.wr_id = (uintptr_t)slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND
	};
	if (conn->unsignaled_count == SIGNAL_EVERY) {
		wr.send_flags = IBV_SEND_SIGNALED;
		/* Its completion frees these: the list stays with the slot. */
		conn->unsignaled = NULL;
		conn->unsignaled_count = 0;
	}
	if (ibv_post_send(conn->qp, &wr, &bad))
		die("ibv_post_send");
	return 1;
}

static struct conn *conn_of(struct side *side, uint32_t qp_num)
{
	for (int i = 0; i < CONNS; i++)
		if (side->conns[i].qp->qp_num == qp_num)
			return &side->conns[i];
	die("a completion of another queue pair");
	return NULL;
}

static void received(struct conn *conn, const struct message *message)
{
	conn->credits += message->credits;
	conn->owed++;
	if (!conn->side->is_server) {
		if (message->seq != conn->done || strcmp(message->body, "reply"))
			die("a wrong reply");
		conn->done++;
	} else if (!send_message(conn, message->seq, "reply", 6)) {
		die("no room for a reply"); /* each request's credit pays for its reply */
	}
}

/* Takes what completed, and posts the receives again. */
static void poll_side(struct side *side)
{
	struct slot *again[16], *slot, *next;
	struct message arrived[16];
	struct conn *from[16];
	struct ibv_wc wc[16];
	int count = ibv_poll_cq(side->cq, 16, wc), recvs = 0;

	if (count < 0)
		die("ibv_poll_cq");
	for (int i = 0; i < count; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			die(ibv_wc_status_str(wc[i].status));
		slot = (struct slot *)(uintptr_t)wc[i].wr_id;
		if (slot->is_send) {
			for (; slot; slot = next) {
				next = slot->next;
				slot->next = side->free;
				side->free = slot;
			}
		} else {
			from[recvs] = conn_of(side, wc[i].qp_num);
			arrived[recvs] = *slot->message;
			again[recvs++] = slot;
		}
	}
	/* Before the answers, which tell the peer of the credits. */
	post_recvs(side, again, recvs);
	for (int i = 0; i < recvs; i++)
		received(from[i], &arrived[i]);
}

static void open_side(struct side *side, struct ibv_context *context, int is_server)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = RECVS, .max_sge = 1 } };
	struct slot *recvs[RECVS];

	memset(side, 0, sizeof(*side));
	side->is_server = is_server;
	side->pd = ibv_alloc_pd(context);
	side->cq = ibv_create_cq(context, RECVS + SENDS + CONNS, NULL, NULL, 0);
	side->memory = calloc(RECVS + SENDS, SIZE);
	if (!side->pd || !side->cq || !side->memory)
		die("a side");
	side->mr = ibv_reg_mr(side->pd, side->memory, (RECVS + SENDS) * SIZE,
			      IBV_ACCESS_LOCAL_WRITE);
	side->srq = ibv_create_srq(side->pd, &srq_attr);
	if (!side->mr || !side->srq)
		die("a region, or a shared receive queue");
	for (int i = 0; i < RECVS + SENDS; i++) {
		struct slot *slot = &side->slots[i];

		slot->message = &side->memory[i];
		slot->is_send = i >= RECVS;
		if (slot->is_send) {
			slot->next = side->free;
			side->free = slot;
		} else {
			recvs[i] = slot;
		}
	}
	post_recvs(side, recvs, RECVS);
	for (int i = 0; i < CONNS; i++) {
		struct ibv_qp_init_attr attr = {
			.send_cq = side->cq, .recv_cq = side->cq, .srq = side->srq,
			.cap = { .max_send_wr = DEPTH, .max_send_sge = 1 },
			.qp_type = IBV_QPT_RC,
		};

		side->conns[i] = (struct conn){ .side = side, .credits = CREDITS };
		side->conns[i].qp = ibv_create_qp(side->pd, &attr);
		if (!side->conns[i].qp)
			die("ibv_create_qp");
	}
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, uint8_t port, const union ibv_gid *gid)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = port, .path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer, .min_rnr_timer = 12, .timeout = 14, .retry_cnt = 7,
		.rnr_retry = 0, /* by credits there is always a receive */
		.ah_attr = { .is_global = 1, .port_num = port,
			     .grh = { .dgid = *gid, .sgid_index = 1, .hop_limit = 1 } },
	};

	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				  IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

/* Queue pairs first: the device may still use the slots until they are gone. */
static void close_side(struct side *side)
{
	for (int i = 0; i < CONNS; i++)
		ibv_destroy_qp(side->conns[i].qp);
	ibv_destroy_srq(side->srq);
	ibv_destroy_cq(side->cq);
	ibv_dereg_mr(side->mr);
	ibv_dealloc_pd(side->pd);
	free(side->memory);
}

static int is_done(const struct side *client)
{
	for (int i = 0; i < CONNS; i++)
		if (client->conns[i].done < ROUNDS)
			return 0;
	return 1;
}

int main(int argc, char **argv)
{
	static struct side client, server;
	struct ibv_context *context = NULL;
	struct ibv_device **list;
	union ibv_gid gid;

	if (argc != 3 || !(list = ibv_get_device_list(NULL)))
		die("credits DEVICE PORT");
	for (int i = 0; list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), argv[1]))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!context || ibv_query_gid(context, atoi(argv[2]), 1, &gid))
		die(argv[1]);

	open_side(&client, context, 0);
	open_side(&server, context, 1);
	for (int i = 0; i < CONNS; i++) {
		connect_to(client.conns[i].qp, server.conns[i].qp->qp_num, atoi(argv[2]), &gid);
		connect_to(server.conns[i].qp, client.conns[i].qp->qp_num, atoi(argv[2]), &gid);
	}
	while (!is_done(&client)) {
		for (int i = 0; i < CONNS; i++) {
			struct conn *conn = &client.conns[i];

			while (conn->sent < ROUNDS && send_message(conn, conn->sent, "request", 8))
				conn->sent++;
		}
		poll_side(&server);
		poll_side(&client);
	}
	printf("%d requests were answered\n", CONNS * ROUNDS);
	close_side(&client);
	close_side(&server);
	ibv_close_device(context);
	return 0;
}
