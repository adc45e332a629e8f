//! Writes `ibv_wc` as providers do. Some write all of it, some only the fields that ibv_poll_cq(3)
//! promises.

#![allow(unsafe_code)] // The C struct is written only in part.

use std::mem::MaybeUninit;

use crate::objects::cq::Cqe;
use crate::words::personality::Fill;
use crate::words::wr::Extra;
use proverbs_sys::types::*;

/// The fields of a completion. `None`: the provider does not write the field.
#[derive(Default)]
pub(super) struct Fields {
    pub(super) opcode: Option<u32>,
    pub(super) vendor_err: Option<u32>,
    pub(super) byte_len: Option<u32>,
    pub(super) extra: Option<u32>,
    pub(super) src_qp: Option<u32>,
    pub(super) wc_flags: Option<u32>,
    pub(super) pkey_index: Option<u16>,
    pub(super) slid: Option<u16>,
    pub(super) sl: Option<u8>,
    pub(super) dlid_path_bits: Option<u8>,
}

pub(super) fn fields(entry: &Cqe, fill: Fill) -> Fields {
    let success = entry.status == ibv_wc_status::IBV_WC_SUCCESS;
    match fill {
        Fill::Rxe { is_itself } if success => {
            Fields { wc_flags: Some(flags_of_rxe(entry, is_itself)), ..everything(entry) }
        }
        Fill::Plain | Fill::Rxe { .. } => everything(entry),
        Fill::Mlx5 if success => mlx5(entry),
        // Some vendor-specific number, and no flags.
        Fill::Mlx5 => {
            let vendor_err = Some(0x80 | entry.status);
            Fields { vendor_err, wc_flags: Some(0), ..Fields::default() }
        }
        Fill::Promised if success => promised(entry),
        Fill::Promised => Fields { vendor_err: Some(0x40 | entry.status), ..Fields::default() },
    }
}

fn is_receive(entry: &Cqe) -> bool {
    entry.opcode & ibv_wc_opcode::IBV_WC_RECV != 0
}

/// READs and atomics, which return data with a length.
fn fetches(entry: &Cqe) -> bool {
    use ibv_wc_opcode::{IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD, IBV_WC_RDMA_READ};
    [IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP, IBV_WC_FETCH_ADD].contains(&entry.opcode)
}

fn flags(extra: Extra, sent_imm: bool, grh: bool) -> u32 {
    let sent = if sent_imm { ibv_wc_flags::IBV_WC_WITH_IMM.0 } else { 0 };
    extra.flag() | sent | if grh { ibv_wc_flags::IBV_WC_GRH.0 } else { 0 }
}

/// Soft-RoCE reports an invalidated key with the kernel's number of the flag, which is another flag
/// in verbs.h.
fn flags_of_rxe(entry: &Cqe, is_itself: bool) -> u32 {
    let received = is_receive(entry) && !entry.datagram;
    match entry.extra {
        Extra::Invalidate(_) if is_itself => {
            ibv_wc_flags::IBV_WC_IP_CSUM_OK.0 | flags(Extra::Nothing, false, received)
        }
        extra => flags(extra, entry.sent_imm, entry.grh || received),
    }
}

fn everything(entry: &Cqe) -> Fields {
    Fields {
        opcode: Some(entry.opcode),
        vendor_err: Some(0),
        byte_len: Some(entry.byte_len),
        extra: Some(entry.extra.word().unwrap_or(0)),
        src_qp: Some(entry.src_qp),
        wc_flags: Some(flags(entry.extra, false, entry.grh)),
        pkey_index: Some(0),
        slid: Some(entry.slid),
        sl: Some(entry.sl),
        dlid_path_bits: Some(entry.path_bits),
    }
}

fn mlx5(entry: &Cqe) -> Fields {
    if is_receive(entry) {
        return Fields { vendor_err: None, extra: entry.extra.word(), ..everything(entry) };
    }
    Fields {
        opcode: Some(entry.opcode),
        byte_len: fetches(entry).then_some(entry.byte_len),
        wc_flags: Some(flags(Extra::Nothing, entry.sent_imm, false)),
        ..Fields::default()
    }
}

/// The source QP is valid for datagrams only. The P_Key index is left out: it is valid only for GSI
/// queue pairs, which programs cannot create.
fn promised(entry: &Cqe) -> Fields {
    let received = is_receive(entry);
    Fields {
        opcode: Some(entry.opcode),
        byte_len: (received || fetches(entry)).then_some(entry.byte_len),
        extra: entry.extra.word(),
        src_qp: entry.datagram.then_some(entry.src_qp),
        wc_flags: Some(flags(entry.extra, false, entry.grh)),
        slid: entry.datagram.then_some(entry.slid),
        sl: entry.datagram.then_some(entry.sl),
        dlid_path_bits: entry.datagram.then_some(entry.path_bits),
        ..Fields::default()
    }
}

/// # Safety
/// `wc` is writable; it need not be initialised.
pub(super) unsafe fn write(wc: *mut ibv_wc, entry: &Cqe, fill: Fill) {
    let fields = fields(entry, fill);
    // SAFETY: `wc` is writable (this function's contract).
    unsafe { unwrite(wc) };
    macro_rules! put {
        ($field:ident, $value:expr) => {
            // SAFETY: a field of `wc`, which is writable. No reference to the rest is made.
            unsafe { (&raw mut (*wc).$field).write($value) }
        };
    }
    put!(wr_id, entry.wr_id);
    put!(status, entry.status);
    put!(qp_num, entry.qp_num);
    macro_rules! put_known {
        ($($field:ident)*) => {$(
            if let Some(value) = fields.$field {
                put!($field, value);
            }
        )*};
    }
    put_known!(opcode vendor_err byte_len src_qp wc_flags pkey_index slid sl dlid_path_bits);
    if let Some(imm_data) = fields.extra {
        put!(imm_data_invalidated_rkey_union, imm_data_invalidated_rkey_union_t { imm_data });
    }
}

/// Makes `wc` uninitialised, which Miri checks. Without Miri a test sees wrong values instead:
/// every flag is set, the opcode is a receive, and the immediate is one that was never sent.
///
/// # Safety
/// `wc` is writable.
unsafe fn unwrite(wc: *mut ibv_wc) {
    let nothing = if cfg!(miri) {
        MaybeUninit::uninit()
    } else {
        const GARBAGE: u8 = 0xb7;
        let mut garbage = MaybeUninit::<ibv_wc>::uninit();
        // SAFETY: these are the bytes of a local of this size.
        unsafe { garbage.as_mut_ptr().cast::<u8>().write_bytes(GARBAGE, size_of::<ibv_wc>()) };
        garbage
    };
    // SAFETY: `wc` is writable (this function's contract). The value need not be initialised.
    unsafe { wc.cast::<MaybeUninit<ibv_wc>>().write(nothing) };
}
