//! The device's limits, as `query_device` and `query_port` report them.

pub(crate) const QP_WR: u32 = 16384;
pub(crate) const SGE: u32 = 32;
pub(crate) const INLINE: u32 = 1024;
pub(crate) const INLINE_SRD: u32 = 80;
/// siw's (`SIW_MAX_SGE` and `SIW_MAX_INLINE`).
pub(crate) const SGE_IWARP: u32 = 6;
pub(crate) const INLINE_IWARP: u32 = 80;
pub(crate) const CQE: u32 = 1 << 20;
pub(crate) const SRQ_WR: u32 = 16384;
pub(crate) const RD_ATOMIC: u8 = 16;
pub(crate) const COMP_VECTORS: i32 = 2;
/// The size of a device's memory, bytes.
pub(crate) const DEVICE_MEMORY: u64 = 1 << 17;
pub(crate) const GIDS: usize = 16;
/// The port's largest MTU, `IBV_MTU_4096`.
pub(crate) const MTU_CODE: u32 = 5;
/// Soft-RoCE has the same limit.
pub(crate) const MESSAGE: u64 = 8 << 20;
/// QP numbers and packet sequence numbers have 24 bits.
pub(crate) const BITS_24: u32 = 0xff_ffff;
/// The connection options that a device supports.
pub(crate) const OPTIONS: u32 = 0b101;
