//! The C layouts that the data path relies on, as assertions (x86-64 and aarch64 Linux).

use std::mem::{offset_of, size_of};

use static_assertions::{assert_eq_size, const_assert_eq};

use super::events::RawAsyncEvent;
use super::types::*;

const_assert_eq!(size_of::<ibv_send_wr>(), 128);
const_assert_eq!(offset_of!(ibv_send_wr, wr_id), 0);
const_assert_eq!(offset_of!(ibv_send_wr, next), 8);
const_assert_eq!(offset_of!(ibv_send_wr, sg_list), 16);
const_assert_eq!(offset_of!(ibv_send_wr, num_sge), 24);
const_assert_eq!(offset_of!(ibv_send_wr, opcode), 28);
const_assert_eq!(offset_of!(ibv_send_wr, send_flags), 32);
const_assert_eq!(offset_of!(ibv_send_wr, imm_data_invalidated_rkey_union), 36);
const_assert_eq!(offset_of!(ibv_send_wr, wr), 40);
// Written as two words.
const_assert_eq!(size_of::<rdma_t>(), 16);
const_assert_eq!(offset_of!(rdma_t, remote_addr), 0);
const_assert_eq!(offset_of!(rdma_t, rkey), 8);

const_assert_eq!(size_of::<ibv_recv_wr>(), 32);
const_assert_eq!(offset_of!(ibv_recv_wr, wr_id), 0);
const_assert_eq!(offset_of!(ibv_recv_wr, next), 8);
const_assert_eq!(offset_of!(ibv_recv_wr, sg_list), 16);
const_assert_eq!(offset_of!(ibv_recv_wr, num_sge), 24);

const_assert_eq!(size_of::<ibv_sge>(), 16);
const_assert_eq!(offset_of!(ibv_sge, length), 8);
const_assert_eq!(offset_of!(ibv_sge, lkey), 12);

const_assert_eq!(size_of::<ibv_wc>(), 48);
const_assert_eq!(offset_of!(ibv_wc, status), 8);
const_assert_eq!(offset_of!(ibv_wc, opcode), 12);
const_assert_eq!(offset_of!(ibv_wc, vendor_err), 16);
const_assert_eq!(offset_of!(ibv_wc, byte_len), 20);
const_assert_eq!(offset_of!(ibv_wc, imm_data_invalidated_rkey_union), 24);
const_assert_eq!(offset_of!(ibv_wc, qp_num), 28);
const_assert_eq!(offset_of!(ibv_wc, src_qp), 32);
const_assert_eq!(offset_of!(ibv_wc, wc_flags), 36);

const_assert_eq!(size_of::<ibv_gid>(), 16);
assert_eq_size!(RawAsyncEvent, raw::ibv_async_event);
const_assert_eq!(
    offset_of!(RawAsyncEvent, event_type),
    offset_of!(raw::ibv_async_event, event_type)
);
const_assert_eq!(offset_of!(ibv_qp, context), 0);
const_assert_eq!(offset_of!(ibv_qp, qp_num), 52);
const_assert_eq!(offset_of!(ibv_cq, context), 0);
const_assert_eq!(offset_of!(ibv_srq, context), 0);

// A wr_id carries a handle, which is a pointer.
assert_eq_size!(usize, u64);
