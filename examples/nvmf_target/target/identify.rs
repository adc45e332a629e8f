//! The data structures of Identify, and the properties of a controller.

use super::queue::{IN_CAPSULE, MAX_TRANSFER};
use crate::wire::{COMMAND, COMPLETION, IDENTIFY_DATA, MAX_ENTRIES, PAGE, put};

/// Bytes of a logical block, as a power of two.
pub const BLOCK_SHIFT: u32 = 9;
/// NVM Express 1.3.
pub const VERSION: u32 = 0x0001_0300;
/// The maximum number of pending asynchronous event requests of a controller.
pub const EVENT_REQUESTS: u8 = 4;
/// Sufficiently unique for one namespace.
const NAMESPACE_GUID: [u8; 16] = *b"\0proverbs ram ns";

/// The property CAP.
pub fn capabilities() -> u64 {
    let max_entries = u64::from(MAX_ENTRIES - 1);
    let contiguous_queues = 1 << 16;
    // In units of 500 ms.
    let ready_timeout = 20 << 24;
    let nvm_command_set = 1 << 37;
    max_entries | contiguous_queues | ready_timeout | nvm_command_set
}

/// A field of text, padded with spaces.
fn put_text<const N: usize>(data: &mut [u8], at: usize, text: &str) {
    let mut field = [b' '; N];
    let len = text.len().min(N);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    put(data, at, &field);
}

/// Identify Controller.
pub fn controller(id: u16, nqn: &str) -> [u8; IDENTIFY_DATA] {
    let mut data = [0; IDENTIFY_DATA];
    put_text::<20>(&mut data, 4, "1");
    put_text::<40>(&mut data, 24, "proverbs nvmf_target");
    put_text::<8>(&mut data, 64, env!("CARGO_PKG_VERSION"));
    // MDTS: the largest transfer, in pages, as a power of two.
    data[77] = (MAX_TRANSFER / PAGE).ilog2() as u8;
    put(&mut data, 78, &id.to_le_bytes());
    put(&mut data, 80, &VERSION.to_le_bytes());
    // CNTRLTYPE: an I/O controller.
    data[111] = 1;
    // AERL, from 0.
    data[259] = EVENT_REQUESTS - 1;
    // KAS: keep-alive timeouts are multiples of 1 s.
    put(&mut data, 320, &10u16.to_le_bytes());
    // SQES and CQES: the sizes of entries, as powers of two, least and most.
    data[512] = 0x11 * COMMAND.ilog2() as u8;
    data[513] = 0x11 * COMPLETION.ilog2() as u8;
    put(&mut data, 514, &MAX_ENTRIES.to_le_bytes());
    // NN: one namespace.
    put(&mut data, 516, &1u32.to_le_bytes());
    // SGLS: supported, with keys (bit 2) and with offsets into the capsule (bit 20).
    put(&mut data, 536, &(1u32 | 1 << 2 | 1 << 20).to_le_bytes());
    put(&mut data, 768, nqn.as_bytes());
    // IOCCSZ and IORCSZ: the sizes of capsules in units of 16 bytes.
    put(&mut data, 1792, &((COMMAND + IN_CAPSULE) as u32 / 16).to_le_bytes());
    put(&mut data, 1796, &(COMPLETION as u32 / 16).to_le_bytes());
    // MSDBD: one descriptor for a command.
    data[1803] = 1;
    data
}

/// Identify Namespace, for a namespace of `blocks` blocks.
pub fn namespace(blocks: u64) -> [u8; IDENTIFY_DATA] {
    let mut data = [0; IDENTIFY_DATA];
    // NSZE, NCAP and NUSE.
    for at in [0, 8, 16] {
        put(&mut data, at, &blocks.to_le_bytes());
    }
    put(&mut data, 104, &NAMESPACE_GUID);
    // The only LBA format: no metadata.
    data[128 + 2] = BLOCK_SHIFT as u8;
    data
}

/// The list of the active namespaces whose identifiers are greater than `after`.
pub fn active_namespaces(after: u32) -> [u8; IDENTIFY_DATA] {
    let mut data = [0; IDENTIFY_DATA];
    data[0] = u8::from(after == 0);
    data
}

/// The list of the namespace's identification descriptors: its NGUID.
pub fn descriptors() -> [u8; IDENTIFY_DATA] {
    let mut data = [0; IDENTIFY_DATA];
    data[0] = 2;
    data[1] = NAMESPACE_GUID.len() as u8;
    put(&mut data, 4, &NAMESPACE_GUID);
    data
}
