/* A libibverbs with one device that always exists: the list, the context, and the results of queries.
 *
 * This is only the part of the control path that the measured programs call before they post. All other exported
 * functions return ENOSYS (missing.c).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "provider.h"

#undef ibv_get_device_list
#undef ibv_query_port

/* Some crates search /sys for a device with this name. */
static struct ibv_device device = {
	.node_type = IBV_NODE_CA,
	.transport_type = IBV_TRANSPORT_IB,
	.name = "stub0",
	.dev_name = "uverbs0",
	.dev_path = "/sys/class/infiniband_verbs/uverbs0",
	/* A path that exists, and does not belong to a software device. */
	.ibdev_path = "/sys/devices/system",
};

struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(2, sizeof(*list));

	if (!list)
		return NULL;
	list[0] = &device;
	if (count)
		*count = 1;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

const char *ibv_get_device_name(struct ibv_device *of)
{
	return of->name;
}

__be64 ibv_get_device_guid(struct ibv_device *of)
{
	(void)of;
	return 0x0100000000000002;
}

int ibv_get_device_index(struct ibv_device *of)
{
	(void)of;
	return 0;
}

static void fill_gid(union ibv_gid *gid)
{
	memset(gid, 0, sizeof(*gid));
	/* fe80::1 */
	gid->raw[0] = 0xfe;
	gid->raw[1] = 0x80;
	gid->raw[15] = 1;
}

static void fill_port(struct ibv_port_attr *attr, size_t len)
{
	struct ibv_port_attr all = {
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_1024,
		.gid_tbl_len = 1,
		.max_msg_sz = 1u << 31,
		.pkey_tbl_len = 1,
		.lid = 1,
		.active_width = 1,
		.active_speed = 1,
		.phys_state = 5,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
	};

	memcpy(attr, &all, len < sizeof(all) ? len : sizeof(all));
}

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	(void)context;
	if (port != 1)
		return EINVAL;
	fill_port(attr, len);
	return 0;
}

/* For old programs, whose struct ends with link_layer. */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	return query_port(context, port, (struct ibv_port_attr *)attr,
			  offsetof(struct ibv_port_attr, link_layer));
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	struct ibv_device_attr all = {
		.fw_ver = "1.0",
		.max_mr_size = UINT64_MAX,
		.page_size_cap = 0xfffff000,
		.max_qp = 1 << 20,
		.max_qp_wr = 1 << 16,
		.max_sge = 32,
		.max_sge_rd = 32,
		.max_cq = 1 << 20,
		.max_cqe = 1 << 24,
		.max_mr = 1 << 20,
		.max_pd = 1 << 20,
		.max_qp_rd_atom = 128,
		.max_qp_init_rd_atom = 128,
		.max_res_rd_atom = 1 << 20,
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_ah = 1 << 20,
		.max_srq = 1 << 16,
		.max_srq_wr = 1 << 16,
		.max_srq_sge = 32,
		.max_pkeys = 1,
		.phys_port_cnt = 1,
	};

	(void)context;
	*attr = all;
	return 0;
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	(void)input;
	memset(attr, 0, size);
	return ibv_query_device(context, &attr->orig_attr);
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	fill_gid(gid);
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	(void)context;
	(void)port;
	(void)index;
	*pkey = 0xffff;
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index, unsigned int *type)
{
	(void)context;
	(void)port;
	(void)index;
	*type = 0;
	return 0;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
		      uint32_t flags, size_t size)
{
	struct ibv_gid_entry one = { .gid_index = index, .port_num = port, .gid_type = IBV_GID_TYPE_IB };

	(void)context;
	(void)flags;
	if (port != 1 || index != 0)
		return ENODATA;
	fill_gid(&one.gid);
	memcpy(entry, &one, size < sizeof(one) ? size : sizeof(one));
	return 0;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
			     uint32_t flags, size_t size)
{
	if (max == 0)
		return -EINVAL;
	return _ibv_query_gid_ex(context, 1, 0, entries, flags, size) ? -EINVAL : 1;
}

static struct ibv_cq_ex *create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	struct ibv_cq_ex *cq =
		(struct ibv_cq_ex *)ibv_create_cq(context, attr->cqe, attr->cq_context, attr->channel, 0);

	if (cq)
		extend_cq(cq);
	return cq;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
	struct ibv_qp *qp = ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);

	(void)context;
	if (qp)
		extend_qp((struct ibv_qp_ex *)qp);
	return qp;
}

struct ibv_context *ibv_open_device(struct ibv_device *of)
{
	struct verbs_context *context = calloc(1, sizeof(*context));

	if (!context)
		return NULL;
	context->sz = sizeof(*context);
	context->query_port = query_port;
	context->query_device_ex = query_device_ex;
	context->create_cq_ex = create_cq_ex;
	context->create_qp_ex = create_qp_ex;
	context->context.device = of;
	context->context.cmd_fd = -1;
	context->context.async_fd = -1;
	context->context.num_comp_vectors = 1;
	context->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	stub_install(&context->context);
	return &context->context;
}

int ibv_close_device(struct ibv_context *context)
{
	free(verbs_get_ctx(context));
	return 0;
}
