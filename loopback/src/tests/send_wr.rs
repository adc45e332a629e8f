//! Send work requests for the tests.

use super::*;

/// A send. Only the fields that its opcode reads are written.
#[derive(Clone)]
pub(super) struct SendWr {
    pub(super) wr_id: u64,
    pub(super) opcode: ibv_wr_opcode::Type,
    pub(super) flags: u32,
    pub(super) imm: Option<u32>,
    pub(super) sges: Vec<ibv_sge>,
    pub(super) remote: Option<(u64, u32)>,
    pub(super) operands: Option<(u64, u64)>,
    pub(super) ud: Option<(*mut ibv_ah, u32, u32)>,
}

pub(super) const SIGNALED: u32 = 2;
pub(super) const SOLICITED: u32 = 4;
pub(super) const INLINE: u32 = 8;

impl SendWr {
    pub(super) fn new(wr_id: u64, opcode: ibv_wr_opcode::Type, sges: &[ibv_sge]) -> SendWr {
        SendWr {
            wr_id,
            opcode,
            flags: SIGNALED,
            imm: None,
            sges: sges.to_vec(),
            remote: None,
            operands: None,
            ud: None,
        }
    }

    pub(super) fn send(wr_id: u64, sges: &[ibv_sge]) -> SendWr {
        SendWr::new(wr_id, ibv_wr_opcode::IBV_WR_SEND, sges)
    }

    pub(super) fn flags(self, flags: u32) -> SendWr {
        SendWr { flags, ..self }
    }

    pub(super) fn imm(self, imm: u32) -> SendWr {
        SendWr { imm: Some(imm), ..self }
    }

    pub(super) fn to(self, peer: &End, offset: usize) -> SendWr {
        SendWr { remote: Some((peer.at(offset), unsafe { (*peer.mr).rkey })), ..self }
    }

    pub(super) fn operands(self, compare_add: u64, swap: u64) -> SendWr {
        SendWr { operands: Some((compare_add, swap)), ..self }
    }

    pub(super) unsafe fn emit(&self, wr: *mut ibv_send_wr, sges: &mut [ibv_sge]) {
        unsafe {
            (*wr).wr_id = self.wr_id;
            (*wr).sg_list = sges.as_mut_ptr();
            (*wr).num_sge = sges.len() as i32;
            (*wr).opcode = self.opcode;
            (*wr).send_flags = self.flags;
            if let Some(imm) = self.imm {
                (&raw mut (*wr).imm_data_invalidated_rkey_union).cast::<u32>().write(imm);
            }
            let arm = &raw mut (*wr).wr;
            match (self.remote, self.operands) {
                (Some((addr, rkey)), Some((compare_add, swap))) => {
                    let atomic = arm.cast::<raw::atomic_t>();
                    (*atomic).remote_addr = addr;
                    (*atomic).rkey = rkey;
                    (*atomic).compare_add = compare_add;
                    if self.opcode == ibv_wr_opcode::IBV_WR_ATOMIC_CMP_AND_SWP {
                        (*atomic).swap = swap;
                    }
                }
                (Some((remote_addr, rkey)), None) => {
                    arm.cast::<raw::rdma_t>().write(raw::rdma_t { remote_addr, rkey });
                }
                _ => {}
            }
            if let Some((ah, remote_qpn, remote_qkey)) = self.ud {
                arm.cast::<raw::ud_t>().write(raw::ud_t { ah, remote_qpn, remote_qkey });
            }
        }
    }
}

pub(super) fn imm(wc: &ibv_wc) -> Option<u32> {
    let has = wc.wc_flags & ibv_wc_flags::IBV_WC_WITH_IMM.0 != 0;
    has.then_some(unsafe { wc.imm_data_invalidated_rkey_union.imm_data })
}
