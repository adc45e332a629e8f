/* Verbs that programs link to but never call here. A program can be loaded only if each name exists. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define MISSING(name)                                                                   \
	void name(void);                                                                \
	void name(void)                                                                 \
	{                                                                               \
		fprintf(stderr, "the stub libibverbs has no %s\n", #name);             \
		abort();                                                                \
	}

MISSING(ibv_ack_async_event)
MISSING(ibv_alloc_mw)
MISSING(ibv_attach_mcast)
MISSING(ibv_copy_ah_attr_from_kern)
MISSING(ibv_copy_path_rec_from_kern)
MISSING(ibv_copy_path_rec_to_kern)
MISSING(ibv_copy_qp_attr_from_kern)
MISSING(ibv_create_ah_from_wc)
MISSING(ibv_create_srq)
MISSING(ibv_dealloc_mw)
MISSING(ibv_destroy_srq)
MISSING(ibv_detach_mcast)
MISSING(ibv_event_type_str)
MISSING(ibv_fork_init)
MISSING(ibv_get_async_event)
MISSING(ibv_get_pkey_index)
MISSING(ibv_get_sysfs_path)
MISSING(ibv_import_device)
MISSING(ibv_import_dm)
MISSING(ibv_import_mr)
MISSING(ibv_import_pd)
MISSING(ibv_init_ah_from_wc)
MISSING(ibv_is_fork_initialized)
MISSING(ibv_modify_srq)
MISSING(ibv_node_type_str)
MISSING(ibv_port_state_str)
MISSING(ibv_query_ece)
MISSING(ibv_query_qp_data_in_order)
MISSING(ibv_query_srq)
MISSING(ibv_rate_to_mbps)
MISSING(ibv_rate_to_mult)
MISSING(ibv_read_sysfs_file)
MISSING(ibv_reg_dmabuf_mr)
MISSING(ibv_rereg_mr)
MISSING(ibv_resize_cq)
MISSING(ibv_resolve_eth_l2_from_gid)
MISSING(ibv_set_ece)
MISSING(ibv_unimport_dm)
MISSING(ibv_unimport_mr)
MISSING(ibv_unimport_pd)
MISSING(ibv_wc_status_str)
MISSING(mbps_to_ibv_rate)
MISSING(mult_to_ibv_rate)
