//! The list of names that are compared with the headers and rdma-sys.

/// Layouts of our bindings (`ours`) or of rdma-sys (`theirs`).
macro_rules! all_layouts {
    ($of:ident) => {
        layouts! { $of
        _ibv_device_ops { _dummy1 _dummy2 }
        addr_union_t { ibaddr }
        atomic_t { remote_addr compare_add swap rkey }
        bind_mw_t { mw rkey bind_info }
        bind_mw_tso_union_t { bind_mw }
        dst_addr_union_t { dst_addr dst_sin dst_sin6 dst_storage }
        ibv_ah { context pd handle }
        ibv_ah_attr { grh dlid sl src_path_bits static_rate is_global port_num }
        ibv_async_event { element event_type }
        ibv_async_event_element_t { cq qp srq port_num }
        ibv_comp_channel { context fd refcnt }
        ibv_context { device ops cmd_fd async_fd num_comp_vectors mutex abi_compat }
        ibv_context_ops {
            alloc_mw bind_mw dealloc_mw poll_cq req_notify_cq post_srq_recv post_send post_recv
        }
        ibv_cq {
            context channel cq_context handle cqe mutex cond comp_events_completed
            async_events_completed
        }
        ibv_device { _ops node_type transport_type name dev_name dev_path ibdev_path }
        ibv_device_attr {
            fw_ver node_guid sys_image_guid max_mr_size page_size_cap vendor_id vendor_part_id
            hw_ver max_qp max_qp_wr device_cap_flags max_sge max_sge_rd max_cq max_cqe max_mr
            max_pd max_qp_rd_atom max_ee_rd_atom max_res_rd_atom max_qp_init_rd_atom
            max_ee_init_rd_atom atomic_cap max_ee max_rdd max_mw max_raw_ipv6_qp max_raw_ethy_qp
            max_mcast_grp max_mcast_qp_attach max_total_mcast_qp_attach max_ah max_fmr
            max_map_per_fmr max_srq max_srq_wr max_srq_sge max_pkeys local_ca_ack_delay
            phys_port_cnt
        }
        ibv_gid { raw global }
        ibv_gid_global_t { subnet_prefix interface_id }
        ibv_global_route { dgid flow_label sgid_index hop_limit traffic_class }
        ibv_mr { context pd addr length handle lkey rkey }
        ibv_mw { context pd rkey handle type_ }
        ibv_mw_bind { wr_id send_flags bind_info }
        ibv_mw_bind_info { mr addr length mw_access_flags }
        ibv_pd { context handle }
        ibv_port_attr {
            state max_mtu active_mtu gid_tbl_len port_cap_flags max_msg_sz bad_pkey_cntr
            qkey_viol_cntr pkey_tbl_len lid sm_lid lmc max_vl_num sm_sl subnet_timeout
            init_type_reply active_width active_speed phys_state link_layer flags port_cap_flags2
        }
        ibv_qp {
            context qp_context pd send_cq recv_cq srq handle qp_num state qp_type mutex cond
            events_completed
        }
        ibv_qp_attr {
            qp_state cur_qp_state path_mtu path_mig_state qkey rq_psn sq_psn dest_qp_num
            qp_access_flags cap ah_attr alt_ah_attr pkey_index alt_pkey_index en_sqd_async_notify
            sq_draining max_rd_atomic max_dest_rd_atomic min_rnr_timer port_num timeout retry_cnt
            rnr_retry alt_port_num alt_timeout rate_limit
        }
        ibv_qp_cap { max_send_wr max_recv_wr max_send_sge max_recv_sge max_inline_data }
        ibv_qp_init_attr { qp_context send_cq recv_cq srq cap qp_type sq_sig_all }
        ibv_recv_wr { wr_id next sg_list num_sge }
        ibv_send_wr {
            wr_id next sg_list num_sge opcode send_flags imm_data_invalidated_rkey_union wr
            qp_type bind_mw_tso_union
        }
        ibv_sge { addr length lkey }
        ibv_srq { context srq_context pd handle mutex cond events_completed }
        ibv_srq_attr { max_wr max_sge srq_limit }
        ibv_srq_init_attr { srq_context attr }
        ibv_wc {
            wr_id status opcode vendor_err byte_len imm_data_invalidated_rkey_union qp_num src_qp
            wc_flags pkey_index slid sl dlid_path_bits
        }
        imm_data_invalidated_rkey_union_t { imm_data invalidated_rkey }
        param_t { conn ud }
        qp_type_t { xrc }
        rdma_addr { src_addr_union dst_addr_union addr }
        rdma_addrinfo {
            ai_flags ai_family ai_qp_type ai_port_space ai_src_len ai_dst_len ai_src_addr
            ai_dst_addr ai_src_canonname ai_dst_canonname ai_route_len ai_route ai_connect_len
            ai_connect ai_next
        }
        rdma_cm_event { id listen_id event status param }
        rdma_cm_id {
            verbs channel context qp route ps port_num event send_cq_channel send_cq
            recv_cq_channel recv_cq srq pd qp_type
        }
        rdma_conn_param {
            private_data private_data_len responder_resources initiator_depth flow_control
            retry_count rnr_retry_count srq qp_num
        }
        rdma_event_channel { fd }
        rdma_ib_addr { sgid dgid pkey }
        rdma_route { addr path_rec num_paths }
        rdma_t { remote_addr rkey }
        rdma_ud_param { private_data private_data_len ah_attr qp_num qkey }
        src_addr_union_t { src_addr src_sin src_sin6 src_storage }
        ud_t { ah remote_qpn remote_qkey }
        wr_t { rdma atomic ud }
        xrc_t { remote_srqn }
        }
    };
}

macro_rules! all_constants {
    ($of:ident) => {{
        let values = values! { $of
        ibv_atomic_cap { IBV_ATOMIC_NONE IBV_ATOMIC_HCA IBV_ATOMIC_GLOB }
        ibv_mig_state { IBV_MIG_MIGRATED IBV_MIG_REARM IBV_MIG_ARMED }
        ibv_mtu { IBV_MTU_256 IBV_MTU_512 IBV_MTU_1024 IBV_MTU_2048 IBV_MTU_4096 }
        ibv_mw_type { IBV_MW_TYPE_1 IBV_MW_TYPE_2 }
        ibv_node_type {
             IBV_NODE_CA IBV_NODE_RNIC
        }
        ibv_port_state {
            IBV_PORT_NOP IBV_PORT_DOWN IBV_PORT_INIT IBV_PORT_ARMED IBV_PORT_ACTIVE
            IBV_PORT_ACTIVE_DEFER
        }
        ibv_qp_state {
            IBV_QPS_RESET IBV_QPS_INIT IBV_QPS_RTR IBV_QPS_RTS IBV_QPS_SQD IBV_QPS_SQE
            IBV_QPS_ERR IBV_QPS_UNKNOWN
        }
        ibv_qp_type {
            IBV_QPT_RC IBV_QPT_UC IBV_QPT_UD IBV_QPT_XRC_SEND IBV_QPT_XRC_RECV
            IBV_QPT_DRIVER
        }
        ibv_transport_type {
            IBV_TRANSPORT_UNKNOWN IBV_TRANSPORT_IB IBV_TRANSPORT_IWARP IBV_TRANSPORT_USNIC
            IBV_TRANSPORT_USNIC_UDP IBV_TRANSPORT_UNSPECIFIED
        }
        ibv_wc_opcode {
            IBV_WC_SEND IBV_WC_RDMA_WRITE IBV_WC_RDMA_READ IBV_WC_COMP_SWAP IBV_WC_FETCH_ADD
            IBV_WC_BIND_MW IBV_WC_LOCAL_INV IBV_WC_RECV
            IBV_WC_RECV_RDMA_WITH_IMM
        }
        ibv_wc_status {
            IBV_WC_SUCCESS IBV_WC_LOC_LEN_ERR IBV_WC_LOC_QP_OP_ERR IBV_WC_LOC_EEC_OP_ERR
            IBV_WC_LOC_PROT_ERR IBV_WC_WR_FLUSH_ERR IBV_WC_MW_BIND_ERR IBV_WC_BAD_RESP_ERR
            IBV_WC_LOC_ACCESS_ERR IBV_WC_REM_INV_REQ_ERR IBV_WC_REM_ACCESS_ERR IBV_WC_REM_OP_ERR
            IBV_WC_RETRY_EXC_ERR IBV_WC_RNR_RETRY_EXC_ERR IBV_WC_LOC_RDD_VIOL_ERR
            IBV_WC_REM_INV_RD_REQ_ERR IBV_WC_REM_ABORT_ERR IBV_WC_INV_EECN_ERR
            IBV_WC_INV_EEC_STATE_ERR IBV_WC_FATAL_ERR IBV_WC_RESP_TIMEOUT_ERR IBV_WC_GENERAL_ERR
        }
        ibv_wr_opcode {
            IBV_WR_RDMA_WRITE IBV_WR_RDMA_WRITE_WITH_IMM IBV_WR_SEND IBV_WR_SEND_WITH_IMM
            IBV_WR_RDMA_READ IBV_WR_ATOMIC_CMP_AND_SWP IBV_WR_ATOMIC_FETCH_AND_ADD
            IBV_WR_LOCAL_INV IBV_WR_BIND_MW IBV_WR_SEND_WITH_INV
        }
        rdma_cm_event_type {
            RDMA_CM_EVENT_ADDR_RESOLVED RDMA_CM_EVENT_ADDR_ERROR RDMA_CM_EVENT_ROUTE_RESOLVED
            RDMA_CM_EVENT_ROUTE_ERROR RDMA_CM_EVENT_CONNECT_REQUEST
            RDMA_CM_EVENT_CONNECT_RESPONSE RDMA_CM_EVENT_CONNECT_ERROR RDMA_CM_EVENT_UNREACHABLE
            RDMA_CM_EVENT_REJECTED RDMA_CM_EVENT_ESTABLISHED RDMA_CM_EVENT_DISCONNECTED
            RDMA_CM_EVENT_DEVICE_REMOVAL RDMA_CM_EVENT_MULTICAST_JOIN
            RDMA_CM_EVENT_MULTICAST_ERROR RDMA_CM_EVENT_ADDR_CHANGE RDMA_CM_EVENT_TIMEWAIT_EXIT
        }
        rdma_port_space { RDMA_PS_TCP RDMA_PS_UDP }
        };
        let bits = bits! { $of
        ibv_access_flags {
            IBV_ACCESS_LOCAL_WRITE IBV_ACCESS_REMOTE_WRITE IBV_ACCESS_REMOTE_READ
            IBV_ACCESS_REMOTE_ATOMIC IBV_ACCESS_MW_BIND
            IBV_ACCESS_ON_DEMAND IBV_ACCESS_HUGETLB IBV_ACCESS_RELAXED_ORDERING
        }
        ibv_device_cap_flags {
             IBV_DEVICE_AUTO_PATH_MIG
             IBV_DEVICE_CURR_QP_STATE_MOD
            IBV_DEVICE_RC_RNR_NAK_GEN IBV_DEVICE_SRQ_RESIZE
              IBV_DEVICE_XRC
        }
        ibv_qp_attr_mask {
            IBV_QP_STATE IBV_QP_CUR_STATE IBV_QP_EN_SQD_ASYNC_NOTIFY IBV_QP_ACCESS_FLAGS
            IBV_QP_PKEY_INDEX IBV_QP_PORT IBV_QP_QKEY IBV_QP_AV IBV_QP_PATH_MTU IBV_QP_TIMEOUT
            IBV_QP_RETRY_CNT IBV_QP_RNR_RETRY IBV_QP_RQ_PSN IBV_QP_MAX_QP_RD_ATOMIC
            IBV_QP_ALT_PATH IBV_QP_MIN_RNR_TIMER IBV_QP_SQ_PSN IBV_QP_MAX_DEST_RD_ATOMIC
            IBV_QP_PATH_MIG_STATE IBV_QP_CAP IBV_QP_DEST_QPN
        }
        ibv_send_flags {
            IBV_SEND_FENCE IBV_SEND_SIGNALED IBV_SEND_SOLICITED IBV_SEND_INLINE
        }
        ibv_srq_attr_mask { IBV_SRQ_MAX_WR IBV_SRQ_LIMIT }
        ibv_wc_flags {
            IBV_WC_GRH IBV_WC_WITH_IMM IBV_WC_IP_CSUM_OK IBV_WC_WITH_INV
        }
        };
        let events = events! { $of
            IBV_EVENT_CQ_ERR IBV_EVENT_QP_FATAL IBV_EVENT_QP_REQ_ERR IBV_EVENT_QP_ACCESS_ERR IBV_EVENT_COMM_EST
            IBV_EVENT_SQ_DRAINED IBV_EVENT_PATH_MIG IBV_EVENT_PATH_MIG_ERR IBV_EVENT_DEVICE_FATAL
            IBV_EVENT_PORT_ACTIVE IBV_EVENT_PORT_ERR IBV_EVENT_LID_CHANGE IBV_EVENT_PKEY_CHANGE
            IBV_EVENT_SM_CHANGE IBV_EVENT_SRQ_ERR IBV_EVENT_SRQ_LIMIT_REACHED IBV_EVENT_QP_LAST_WQE_REACHED
            IBV_EVENT_CLIENT_REREGISTER IBV_EVENT_GID_CHANGE IBV_EVENT_WQ_FATAL
        };
        let options = vec![
            ("RAI_PASSIVE", i64::from($of::RAI_PASSIVE)),
            ("RAI_NUMERICHOST", i64::from($of::RAI_NUMERICHOST)),
            ("RAI_NOROUTE", i64::from($of::RAI_NOROUTE)),
            ("RAI_FAMILY", i64::from($of::RAI_FAMILY)),
        ];
        [values, bits, events, options].concat()
    }};
}
