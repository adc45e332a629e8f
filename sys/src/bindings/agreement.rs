//! Compares the bindings with the installed headers and with rdma-sys: sizes, alignments, offsets,
//! constants. `cargo xtask test bindings` runs both.
//!
//! Headers newer than rdma-core 44 may add fields at the end of a struct. [`GROWN`] lists these
//! fields.

#[macro_use]
mod names;
mod operations;

use std::io::Write;
use std::mem::{align_of, offset_of, size_of};
use std::process::{Command, Stdio};

use super as ours;
use crate::types;
use operations::{distances, prototypes};

/// The structs that are longer in newer headers, since which version, and their new size.
const GROWN: [(&str, &str, usize); 3] = [
    ("ibv_port_attr", "rdma-core 49: active_speed_ex", 56),
    ("ibv_qp_ex", "rdma-core 44 at the latest: wr_atomic_write", 352),
    ("ibv_qp_ex", "rdma-core 65 at the latest: wr_flush", 360),
];

/// Types without a name in C, as the expression that has the type.
const UNNAMED: [(&str, &str); 11] = [
    ("addr_union_t", "((struct rdma_addr *)0)->addr"),
    ("atomic_t", "((struct ibv_send_wr *)0)->wr.atomic"),
    ("bind_mw_t", "((struct ibv_send_wr *)0)->bind_mw"),
    ("ibv_async_event_element_t", "((struct ibv_async_event *)0)->element"),
    ("ibv_gid_global_t", "((union ibv_gid *)0)->global"),
    ("param_t", "((struct rdma_cm_event *)0)->param"),
    ("qp_type_t", "((struct ibv_send_wr *)0)->qp_type"),
    ("rdma_t", "((struct ibv_send_wr *)0)->wr.rdma"),
    ("ud_t", "((struct ibv_send_wr *)0)->wr.ud"),
    ("wr_t", "((struct ibv_send_wr *)0)->wr"),
    ("xrc_t", "((struct ibv_send_wr *)0)->qp_type.xrc"),
];

/// Unions that have neither a name nor a type name in C, with their longest arm.
const ANONYMOUS: [(&str, &str, &str); 4] = [
    ("bind_mw_tso_union_t", "bind_mw_tso_union", "bind_mw"),
    ("dst_addr_union_t", "dst_addr_union", "dst_storage"),
    ("imm_data_invalidated_rkey_union_t", "imm_data_invalidated_rkey_union", "imm_data"),
    ("src_addr_union_t", "src_addr_union", "src_storage"),
];

#[derive(Debug, PartialEq)]
struct Layout {
    name: &'static str,
    size: usize,
    align: usize,
    /// Name, offset and size of each.
    fields: Vec<(&'static str, usize, usize)>,
}

/// The size of the field that `field` points to.
fn size_of_field<T, F>(_: fn(*const T) -> *const F) -> usize {
    size_of::<F>()
}

macro_rules! layouts {
    ($of:ident $($name:ident { $($field:ident)* })*) => {
        vec![$(Layout {
            name: stringify!($name),
            size: size_of::<$of::$name>(),
            align: align_of::<$of::$name>(),
            fields: vec![$((
                stringify!($field),
                offset_of!($of::$name, $field),
                // SAFETY: the function is never called.
                size_of_field::<$of::$name, _>(|at| unsafe { &raw const (*at).$field }),
            )),*],
        }),*]
    };
}

macro_rules! values {
    ($of:ident $($name:ident { $($constant:ident)* })*) => {
        vec![$($((stringify!($constant), i64::from($of::$name::$constant))),*),*]
    };
}

macro_rules! bits {
    ($of:ident $($name:ident { $($constant:ident)* })*) => {
        vec![$($((stringify!($constant), i64::from($of::$name::$constant.0))),*),*]
    };
}

macro_rules! events {
    ($of:ident $($constant:ident)*) => {
        vec![$((stringify!($constant), $of::ibv_event_type::$constant as i64)),*]
    };
}

/// The constants that rdma-sys lacks.
fn own_constants() -> [(&'static str, i64); 3] {
    [
        ("IBV_ACCESS_OPTIONAL_RANGE", types::OPTIONAL_ACCESS.into()),
        ("IBV_LINK_LAYER_INFINIBAND", types::LINK_LAYER_INFINIBAND.into()),
        ("IBV_LINK_LAYER_ETHERNET", types::LINK_LAYER_ETHERNET.into()),
    ]
}

/// Whether a struct may have this size in the headers.
fn may_be(layout: &Layout, size: usize) -> bool {
    let grown = GROWN.iter().any(|(name, _, then)| *name == layout.name && *then == size);
    size == layout.size || grown
}

/// The C name of a type; `None` if it has none.
fn name_in_c(name: &str) -> Option<String> {
    if ANONYMOUS.iter().any(|(union, ..)| *union == name) {
        None
    } else if UNNAMED.iter().any(|(unnamed, _)| *unnamed == name) {
        Some(name.to_owned())
    } else if name == "ibv_gid" {
        Some(format!("union {name}"))
    } else {
        Some(format!("struct {name}"))
    }
}

/// A C program that compiles if the headers agree.
fn program(layouts: &[Layout], constants: &[(&str, i64)]) -> String {
    let mut text = "#include <stddef.h>\n#include <rdma/rdma_cma.h>\n".to_owned();
    for (name, like) in UNNAMED {
        text += &format!("typedef __typeof__({like}) {name};\n");
    }
    let mut hold = |what: String| text += &format!("_Static_assert({what}, \"\");\n");
    for layout in layouts {
        let Some(name) = name_in_c(layout.name) else { continue };
        let sizes: Vec<String> = [layout.size]
            .into_iter()
            .chain(GROWN.iter().filter(|(name, ..)| *name == layout.name).map(|(.., size)| *size))
            .map(|size| format!("sizeof({name}) == {size}"))
            .collect();
        hold(sizes.join(" || "));
        hold(format!("_Alignof({name}) == {}", layout.align));
        for (field, offset, size) in &layout.fields {
            let arm = ANONYMOUS.iter().find(|(_, union, _)| union == field).map(|(.., arm)| *arm);
            let field = arm.unwrap_or(field.trim_end_matches('_'));
            hold(format!("offsetof({name}, {field}) == {offset}"));
            hold(format!("sizeof((({name} *)0)->{field}) == {size}"));
        }
    }
    for (name, value) in constants {
        hold(format!("(long long){name} == {value}"));
    }
    text
}

/// The errors that the C compiler reports for a program, with the installed headers.
fn compile(program: &str) -> String {
    compile_with(program, &[])
}

/// As `compile`, with these options.
fn compile_with(program: &str, options: &[&str]) -> String {
    let mut cc = Command::new("cc")
        .args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-"])
        .args(options)
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    cc.stdin.take().unwrap().write_all(program.as_bytes()).unwrap();
    let output = cc.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), !said.contains("error"), "{said}");
    said
}

/// The types that rdma-sys lacks, or has from one version only.
fn own_layouts() -> Vec<Layout> {
    use crate::extended as own;
    layouts! { own
        ibv_cq_moderation_caps { max_cq_count max_cq_period }
        ibv_device_attr_ex {
            orig_attr comp_mask odp_caps completion_timestamp_mask hca_core_clock
            device_cap_flags_ex tso_caps rss_caps max_wq_type_rq packet_pacing_caps raw_packet_caps
            tm_caps cq_mod_caps max_dm_size pci_atomic_caps xrc_odp_caps phys_port_cnt_ex
        }
        ibv_odp_caps { general_caps per_transport_caps }
        ibv_packet_pacing_caps { qp_rate_limit_min qp_rate_limit_max supported_qpts }
        ibv_pci_atomic_caps { fetch_add swap compare_swap }
        ibv_rss_caps {
            supported_qpts max_rwq_indirection_tables max_rwq_indirection_table_size
            rx_hash_fields_mask rx_hash_function
        }
        ibv_tm_caps { max_rndv_hdr_size max_num_tags flags max_ops max_sge }
        ibv_tso_caps { max_tso supported_qpts }
    }
}

fn more_layouts() -> Vec<Layout> {
    use crate::cm::newer;
    use crate::{create_qp_ex, gid, lanes, memory, polling, query, session, tuning, xrc};
    let mut all = layouts! { gid ibv_gid_entry { gid gid_index port_num gid_type ndev_ifindex } };
    all.extend(layouts! { tuning
        ibv_ece { vendor_id options comp_mask }
        ibv_moderate_cq { cq_count cq_period }
        ibv_modify_cq_attr { attr_mask moderate }
        ibv_qp_rate_limit_attr { rate_limit max_burst_sz typical_pkt_sz comp_mask }
    });
    all.extend(layouts! { create_qp_ex
        ibv_rx_hash_conf {
            rx_hash_function rx_hash_key_len rx_hash_key rx_hash_fields_mask
        }
        ibv_qp_init_attr_ex {
            qp_context send_cq recv_cq srq cap qp_type sq_sig_all comp_mask pd xrcd create_flags
            max_tso_header rwq_ind_tbl rx_hash_conf source_qpn send_ops_flags
        }
    });
    all.extend(layouts! { session
        ibv_data_buf { addr length }
        ibv_qp_ex {
            qp_base comp_mask wr_id wr_flags wr_atomic_cmp_swp wr_atomic_fetch_add wr_bind_mw
            wr_local_inv wr_rdma_read wr_rdma_write wr_rdma_write_imm wr_send wr_send_imm
            wr_send_inv wr_send_tso wr_set_ud_addr wr_set_xrc_srqn wr_set_inline_data
            wr_set_inline_data_list wr_set_sge wr_set_sge_list wr_start wr_complete wr_abort
        }
    });
    all.extend(layouts! { xrc
        ibv_xrcd { context }
        ibv_xrcd_init_attr { comp_mask fd oflags }
        ibv_tm_cap { max_num_tags max_ops }
        ibv_srq_init_attr_ex {
            srq_context attr comp_mask srq_type pd xrcd cq tm_cap
        }
    });
    all.extend(layouts! { newer rdma_cm_join_mc_attr_ex { comp_mask join_flags addr } });
    all.extend(layouts! { query ibv_values_ex { comp_mask raw_clock } });
    all.extend(layouts! { memory
        ibv_alloc_dm_attr { length log_align_req comp_mask }
        ibv_dm { context memcpy_to_dm memcpy_from_dm comp_mask handle }
    });
    all.extend(layouts! { polling
        ibv_cq_ex {
            comp_mask status wr_id start_poll next_poll end_poll read_opcode read_vendor_err
            read_byte_len read_imm_data read_qp_num read_src_qp read_wc_flags read_slid read_sl
            read_dlid_path_bits read_completion_ts read_cvlan read_flow_tag read_tm_info
            read_completion_wallclock_ns
        }
        ibv_cq_init_attr_ex {
            cqe cq_context channel comp_vector wc_flags comp_mask flags parent_domain
        }
        ibv_poll_cq_attr { comp_mask }
    });
    all.extend(layouts! { lanes
        ibv_parent_domain_init_attr { pd td comp_mask alloc free pd_context }
        ibv_td { context }
        ibv_td_init_attr { comp_mask }
    });
    all
}

/// Bits of an enum, with C's names minus the prefix.
macro_rules! unprefixed {
    ($prefix:literal, $bits:ident: $($name:ident)+) => {
        [$((concat!($prefix, stringify!($name)), $bits::$name as i64)),+]
    };
}

/// A C program that compiles if headers at least as old as rdma-core 44 agree.
fn whole_program() -> String {
    let kinds = [
        ("IBV_GID_TYPE_IB", crate::gid::IB.into()),
        ("IBV_GID_TYPE_ROCE_V1", crate::gid::ROCE_V1.into()),
        ("IBV_GID_TYPE_ROCE_V2", crate::gid::ROCE_V2.into()),
    ];
    use crate::memory::*;
    let of_memory = [
        ("IBV_ACCESS_ZERO_BASED", ZERO_BASED.into()),
        ("IBV_REREG_MR_CHANGE_TRANSLATION", CHANGE_TRANSLATION.into()),
        ("IBV_REREG_MR_CHANGE_PD", CHANGE_PD.into()),
        ("IBV_REREG_MR_CHANGE_ACCESS", CHANGE_ACCESS.into()),
        ("IBV_REREG_MR_ERR_INPUT", ERR_INPUT.into()),
        ("IBV_REREG_MR_ERR_DONT_FORK_NEW", ERR_DONT_FORK_NEW.into()),
        ("IBV_REREG_MR_ERR_DO_FORK_OLD", ERR_DO_FORK_OLD.into()),
        ("IBV_REREG_MR_ERR_CMD", ERR_CMD.into()),
        ("IBV_REREG_MR_ERR_CMD_AND_DO_FORK_NEW", ERR_CMD_AND_DO_FORK_NEW.into()),
        ("IBV_ADVISE_MR_ADVICE_PREFETCH", advice::PREFETCH.into()),
        ("IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE", advice::PREFETCH_WRITE.into()),
        ("IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT", advice::PREFETCH_NO_FAULT.into()),
        ("IBV_ADVISE_MR_FLAG_FLUSH", FLUSH.into()),
    ];
    let of_asking = [
        ("IBV_CQ_ATTR_MODERATE", crate::tuning::MODERATE.into()),
        ("IBV_VALUES_MASK_RAW_CLOCK", crate::query::RAW_CLOCK.into()),
    ];
    use crate::polling::{MASK_FLAGS, SINGLE_THREADED, wc_flags};
    let of_polling = [
        ("IBV_CQ_INIT_ATTR_MASK_FLAGS", MASK_FLAGS.into()),
        ("IBV_CREATE_CQ_ATTR_SINGLE_THREADED", SINGLE_THREADED.into()),
    ];
    let of_fields = unprefixed! { "IBV_WC_EX_WITH_", wc_flags:
        BYTE_LEN IMM QP_NUM SRC_QP SLID SL DLID_PATH_BITS COMPLETION_TIMESTAMP
        COMPLETION_TIMESTAMP_WALLCLOCK
    };
    use crate::session::send_ops;
    let of_sessions = unprefixed! { "IBV_QP_EX_WITH_", send_ops:
        RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM RDMA_READ ATOMIC_CMP_AND_SWP
        ATOMIC_FETCH_AND_ADD LOCAL_INV BIND_MW SEND_WITH_INV
    };
    use crate::cm::newer;
    use crate::create_qp_ex as with_flags;
    use crate::xrc;
    let of_cm = [
        ("IBV_QP_INIT_ATTR_PD", with_flags::ATTR_PD.into()),
        ("IBV_QP_INIT_ATTR_CREATE_FLAGS", with_flags::ATTR_CREATE_FLAGS.into()),
        ("IBV_QP_INIT_ATTR_XRCD", with_flags::ATTR_XRCD.into()),
        ("IBV_XRCD_INIT_ATTR_FD", xrc::XRCD_FD.into()),
        ("IBV_XRCD_INIT_ATTR_OFLAGS", xrc::XRCD_OFLAGS.into()),
        ("IBV_SRQT_XRC", xrc::SRQT_XRC.into()),
        ("IBV_SRQ_INIT_ATTR_TYPE", xrc::SRQ_TYPE.into()),
        ("IBV_SRQ_INIT_ATTR_PD", xrc::SRQ_PD.into()),
        ("IBV_SRQ_INIT_ATTR_XRCD", xrc::SRQ_XRCD.into()),
        ("IBV_SRQ_INIT_ATTR_CQ", xrc::SRQ_CQ.into()),
        ("IBV_QP_INIT_ATTR_SEND_OPS_FLAGS", with_flags::ATTR_SEND_OPS_FLAGS.into()),
        ("IBV_QP_CREATE_BLOCK_SELF_MCAST_LB", with_flags::BLOCK_SELF_MCAST_LB.into()),
        ("RDMA_CM_JOIN_MC_ATTR_ADDRESS", newer::JOIN_ADDRESS.into()),
        ("RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS", newer::JOIN_FLAGS.into()),
        ("RDMA_MC_JOIN_FLAG_FULLMEMBER", newer::FULLMEMBER.into()),
        ("RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER", newer::SENDONLY_FULLMEMBER.into()),
    ];
    let constants = [
        all_constants!(ours),
        own_constants().to_vec(),
        kinds.to_vec(),
        of_memory.to_vec(),
        of_polling.to_vec(),
        of_fields.to_vec(),
        of_asking.to_vec(),
        of_cm.to_vec(),
        of_sessions.to_vec(),
    ]
    .concat();
    let layouts: Vec<_> =
        all_layouts!(ours).into_iter().chain(own_layouts()).chain(more_layouts()).collect();
    program(&layouts, &constants) + &distances() + &prototypes()
}

#[test]
#[ignore = "requires the C headers: cargo xtask test bindings"]
fn the_headers_agree() {
    let said = compile(&whole_program());
    assert!(!said.contains("error"), "{said}");
}

/// Declarations that headers older than rdma-core 65 lack.
fn newer_program() -> String {
    use crate::persist::*;
    use crate::session::send_ops;
    let constants = [
        ("IBV_WR_FLUSH", i64::from(WR_FLUSH)),
        ("IBV_WR_ATOMIC_WRITE", WR_ATOMIC_WRITE.into()),
        ("IBV_WC_FLUSH", WC_FLUSH.into()),
        ("IBV_WC_ATOMIC_WRITE", WC_ATOMIC_WRITE.into()),
        ("IBV_ACCESS_FLUSH_GLOBAL", ACCESS_FLUSH_GLOBAL.into()),
        ("IBV_ACCESS_FLUSH_PERSISTENT", ACCESS_FLUSH_PERSISTENT.into()),
        ("IBV_FLUSH_GLOBAL", placement::GLOBAL.into()),
        ("IBV_FLUSH_PERSISTENT", placement::PERSISTENT.into()),
        ("IBV_FLUSH_RANGE", selectivity::RANGE.into()),
        ("IBV_FLUSH_MR", selectivity::MR.into()),
        ("IBV_ODP_SUPPORT_FLUSH", ODP_FLUSH.into()),
        ("IBV_ODP_SUPPORT_ATOMIC_WRITE", ODP_ATOMIC_WRITE.into()),
    ];
    let ops = unprefixed! { "IBV_QP_EX_WITH_", send_ops: FLUSH ATOMIC_WRITE };
    let mut text = program(&[], &[&constants[..], &ops[..]].concat());
    let functions = [
        (
            "wr_atomic_write",
            offset_of!(ibv_qp_ex_65, wr_atomic_write),
            "uint32_t, uint64_t, const void *",
        ),
        (
            "wr_flush",
            offset_of!(ibv_qp_ex_65, wr_flush),
            "uint32_t, uint64_t, size_t, uint8_t, uint8_t",
        ),
    ];
    for (name, offset, arguments) in functions {
        text += &format!(
            "_Static_assert(offsetof(struct ibv_qp_ex, {name}) == {offset}, \"\");\n\
             _Static_assert(__builtin_types_compatible_p(__typeof__(((struct ibv_qp_ex *)0)->{name}), \
             void (*)(struct ibv_qp_ex *, {arguments})), \"\");\n"
        );
    }
    text
}

/// The newest headers in Debian, which `PROVERBS_HEADERS` names. They must agree with the new
/// declarations and with all older ones.
#[test]
#[ignore = "requires the newest C headers: cargo xtask test bindings"]
fn the_newest_headers_agree() {
    let Ok(headers) = std::env::var("PROVERBS_HEADERS") else {
        return println!("PROVERBS_HEADERS is not set: run `cargo xtask test bindings`");
    };
    let options = ["-isystem", &headers];
    let (older, newer) = (whole_program(), newer_program());
    let said = compile_with(&(older + &newer), &options);
    assert!(!said.contains("error"), "{said}");
    for (was, is) in [("IBV_WR_FLUSH == 14", "IBV_WR_FLUSH == 15"), ("uint8_t, uint8_t", "uint8_t")]
    {
        assert!(newer.contains(was));
        let said = compile_with(&newer.replace(was, is), &options);
        assert!(said.contains("static assertion failed"), "{is}: {said}");
    }
}

#[test]
#[ignore = "requires the C headers: cargo xtask test bindings"]
fn each_difference_from_the_headers_is_found() {
    let first = || all_layouts!(ours).into_iter().find(|layout| layout.name == "ibv_wc").unwrap();
    let refused = |change: fn(&mut Layout)| {
        let mut layout = first();
        change(&mut layout);
        compile(&program(&[layout], &[])).contains("static assertion failed")
    };
    assert!(!refused(|_| {}));
    assert!(refused(|layout| layout.size += 8));
    assert!(refused(|layout| layout.align = 4));
    assert!(refused(|layout| layout.fields[3].1 += 4));
    assert!(refused(|layout| layout.fields[3].2 += 4));
    assert!(compile(&program(&[], &[("IBV_QPS_RTS", 4)])).contains("static assertion failed"));
}

#[test]
#[cfg(feature = "rdma-sys")]
fn rdma_sys_agrees() {
    use rdma_sys as theirs;
    for (ours, theirs) in all_layouts!(ours).into_iter().zip(all_layouts!(theirs)) {
        assert!(may_be(&ours, theirs.size), "{}: {} and {}", ours.name, ours.size, theirs.size);
        assert_eq!((ours.align, ours.fields), (theirs.align, theirs.fields), "{}", ours.name);
    }
    assert_eq!(all_constants!(ours), all_constants!(theirs));
}
