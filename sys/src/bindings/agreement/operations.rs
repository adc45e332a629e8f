//! The positions and types of extended operations and of functions that are called through
//! pointers.

/// The distance of each extended operation before the context.
pub(crate) fn distances() -> String {
    use crate::{
        create_qp_ex::*, extended::*, lanes::*, memory::*, polling::*, query::*, tuning::*, xrc::*,
    };
    let mut text = String::new();
    let operations = [
        ("query_port", QUERY_PORT),
        ("query_device_ex", QUERY_DEVICE_EX),
        ("advise_mr", ADVISE_MR),
        ("alloc_null_mr", ALLOC_NULL_MR),
        ("modify_qp_rate_limit", MODIFY_QP_RATE_LIMIT),
        ("modify_cq", MODIFY_CQ),
        ("reg_dm_mr", REG_DM_MR),
        ("alloc_dm", ALLOC_DM),
        ("free_dm", FREE_DM),
        ("alloc_parent_domain", ALLOC_PARENT_DOMAIN),
        ("dealloc_td", DEALLOC_TD),
        ("alloc_td", ALLOC_TD),
        ("query_rt_values", QUERY_RT_VALUES),
        ("create_cq_ex", CREATE_CQ_EX),
        ("create_qp_ex", CREATE_QP_EX),
        ("get_srq_num", GET_SRQ_NUM),
        ("create_srq_ex", CREATE_SRQ_EX),
        ("open_xrcd", OPEN_XRCD),
        ("close_xrcd", CLOSE_XRCD),
    ];
    for (op, distance) in operations {
        let context = "offsetof(struct verbs_context, context)";
        let op = format!("offsetof(struct verbs_context, {op})");
        text += &format!("_Static_assert({context} - {op} == {distance}, \"\");\n");
        text += &format!(
            "_Static_assert(sizeof(struct verbs_context) - {op} == {}, \"\");\n",
            BARE + distance
        );
    }
    text
}

/// The types of functions and operations that are called through pointers.
pub(crate) fn prototypes() -> String {
    let of_context = "__typeof__(((struct verbs_context *)0)->";
    let text = [
        (
            "__typeof__(&ibv_reg_dmabuf_mr)".into(),
            "struct ibv_mr *(*)(struct ibv_pd *, uint64_t, size_t, uint64_t, int, int)",
        ),
        (
            "__typeof__(&ibv_rereg_mr)".into(),
            "int (*)(struct ibv_mr *, int, struct ibv_pd *, void *, size_t, int)",
        ),
        (
            format!("{of_context}alloc_dm)"),
            "struct ibv_dm *(*)(struct ibv_context *, struct ibv_alloc_dm_attr *)",
        ),
        (format!("{of_context}free_dm)"), "int (*)(struct ibv_dm *)"),
        (
            format!("{of_context}query_rt_values)"),
            "int (*)(struct ibv_context *, struct ibv_values_ex *)",
        ),
        (
            format!("{of_context}modify_cq)"),
            "int (*)(struct ibv_cq *, struct ibv_modify_cq_attr *)",
        ),
        (
            format!("{of_context}modify_qp_rate_limit)"),
            "int (*)(struct ibv_qp *, struct ibv_qp_rate_limit_attr *)",
        ),
        (
            format!("{of_context}create_qp_ex)"),
            "struct ibv_qp *(*)(struct ibv_context *, struct ibv_qp_init_attr_ex *)",
        ),
        (
            format!("{of_context}open_xrcd)"),
            "struct ibv_xrcd *(*)(struct ibv_context *, struct ibv_xrcd_init_attr *)",
        ),
        (format!("{of_context}close_xrcd)"), "int (*)(struct ibv_xrcd *)"),
        (
            format!("{of_context}create_srq_ex)"),
            "struct ibv_srq *(*)(struct ibv_context *, struct ibv_srq_init_attr_ex *)",
        ),
        (format!("{of_context}get_srq_num)"), "int (*)(struct ibv_srq *, uint32_t *)"),
        (format!("{of_context}alloc_null_mr)"), "struct ibv_mr *(*)(struct ibv_pd *)"),
        ("__typeof__(&ibv_set_ece)".into(), "int (*)(struct ibv_qp *, struct ibv_ece *)"),
        ("__typeof__(&ibv_query_ece)".into(), "int (*)(struct ibv_qp *, struct ibv_ece *)"),
        (
            "__typeof__(&rdma_set_local_ece)".into(),
            "int (*)(struct rdma_cm_id *, struct ibv_ece *)",
        ),
        (
            "__typeof__(&rdma_get_remote_ece)".into(),
            "int (*)(struct rdma_cm_id *, struct ibv_ece *)",
        ),
        (
            "__typeof__(&rdma_reject_ece)".into(),
            "int (*)(struct rdma_cm_id *, const void *, uint8_t)",
        ),
        (
            "__typeof__(&rdma_join_multicast_ex)".into(),
            "int (*)(struct rdma_cm_id *, struct rdma_cm_join_mc_attr_ex *, void *)",
        ),
        ("__typeof__(&ibv_get_device_index)".into(), "int (*)(struct ibv_device *)"),
        (
            "__typeof__(&ibv_query_qp_data_in_order)".into(),
            "int (*)(struct ibv_qp *, enum ibv_wr_opcode, uint32_t)",
        ),
        (
            format!("{of_context}advise_mr)"),
            "int (*)(struct ibv_pd *, enum ibv_advise_mr_advice, uint32_t, struct ibv_sge *, uint32_t)",
        ),
        (
            format!("{of_context}alloc_td)"),
            "struct ibv_td *(*)(struct ibv_context *, struct ibv_td_init_attr *)",
        ),
        (format!("{of_context}dealloc_td)"), "int (*)(struct ibv_td *)"),
        (
            format!("{of_context}alloc_parent_domain)"),
            "struct ibv_pd *(*)(struct ibv_context *, struct ibv_parent_domain_init_attr *)",
        ),
        (
            format!("{of_context}create_cq_ex)"),
            "struct ibv_cq_ex *(*)(struct ibv_context *, struct ibv_cq_init_attr_ex *)",
        ),
        (
            "__typeof__(((struct ibv_cq_ex *)0)->start_poll)".into(),
            "int (*)(struct ibv_cq_ex *, struct ibv_poll_cq_attr *)",
        ),
        ("__typeof__(((struct ibv_cq_ex *)0)->next_poll)".into(), "int (*)(struct ibv_cq_ex *)"),
        ("__typeof__(((struct ibv_cq_ex *)0)->end_poll)".into(), "void (*)(struct ibv_cq_ex *)"),
        (
            "__typeof__(((struct ibv_cq_ex *)0)->read_slid)".into(),
            "uint32_t (*)(struct ibv_cq_ex *)",
        ),
        ("__typeof__(((struct ibv_cq_ex *)0)->read_sl)".into(), "uint8_t (*)(struct ibv_cq_ex *)"),
        (
            "__typeof__(((struct ibv_cq_ex *)0)->read_completion_ts)".into(),
            "uint64_t (*)(struct ibv_cq_ex *)",
        ),
        (
            "__typeof__(((struct ibv_cq_ex *)0)->read_completion_wallclock_ns)".into(),
            "uint64_t (*)(struct ibv_cq_ex *)",
        ),
        (
            format!("{of_context}reg_dm_mr)"),
            "struct ibv_mr *(*)(struct ibv_pd *, struct ibv_dm *, uint64_t, size_t, unsigned int)",
        ),
        (
            "__typeof__(((struct ibv_dm *)0)->memcpy_to_dm)".into(),
            "int (*)(struct ibv_dm *, uint64_t, const void *, size_t)",
        ),
        (
            "__typeof__(((struct ibv_dm *)0)->memcpy_from_dm)".into(),
            "int (*)(void *, struct ibv_dm *, uint64_t, size_t)",
        ),
    ]
    .map(|(theirs, ours)| {
        format!("_Static_assert(__builtin_types_compatible_p({theirs}, {ours}), \"\");\n")
    });
    text.concat() + &of_sessions()
}

/// The functions of extended posting.
fn of_sessions() -> String {
    [
        ("wr_start", "void (*)(struct ibv_qp_ex *)"),
        ("wr_complete", "int (*)(struct ibv_qp_ex *)"),
        ("wr_abort", "void (*)(struct ibv_qp_ex *)"),
        ("wr_send", "void (*)(struct ibv_qp_ex *)"),
        ("wr_send_imm", "void (*)(struct ibv_qp_ex *, uint32_t)"),
        ("wr_send_inv", "void (*)(struct ibv_qp_ex *, uint32_t)"),
        ("wr_local_inv", "void (*)(struct ibv_qp_ex *, uint32_t)"),
        ("wr_rdma_read", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t)"),
        ("wr_rdma_write", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t)"),
        ("wr_rdma_write_imm", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t)"),
        ("wr_atomic_cmp_swp", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t, uint64_t)"),
        ("wr_atomic_fetch_add", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint64_t)"),
        ("wr_bind_mw", "void (*)(struct ibv_qp_ex *, struct ibv_mw *, uint32_t, const struct ibv_mw_bind_info *)"),
        ("wr_set_ud_addr", "void (*)(struct ibv_qp_ex *, struct ibv_ah *, uint32_t, uint32_t)"),
        ("wr_set_xrc_srqn", "void (*)(struct ibv_qp_ex *, uint32_t)"),
        ("wr_set_inline_data", "void (*)(struct ibv_qp_ex *, void *, size_t)"),
        ("wr_set_inline_data_list", "void (*)(struct ibv_qp_ex *, size_t, const struct ibv_data_buf *)"),
        ("wr_set_sge", "void (*)(struct ibv_qp_ex *, uint32_t, uint64_t, uint32_t)"),
        ("wr_set_sge_list", "void (*)(struct ibv_qp_ex *, size_t, const struct ibv_sge *)"),
    ]
    .map(|(name, ours)| {
        let theirs = format!("__typeof__(((struct ibv_qp_ex *)0)->{name})");
        format!("_Static_assert(__builtin_types_compatible_p({theirs}, {ours}), \"\");\n")
    })
    .concat()
}
