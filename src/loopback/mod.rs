//! A software RDMA device, in pure Rust, inside this process.
//!
//! Devices opened on one [`Fabric`] reach each other. As hardware does, a device works after a post has
//! returned: a post checks what libibverbs providers check and copies the work request, and every
//! other verb first lets the whole fabric work until nothing more can happen. There is no thread,
//! no clock and no chance in it, so a program that makes the same calls sees the same completions.
//!
//! Nobody but the callers of verbs makes the fabric work. A program that sleeps on a descriptor in an event loop
//! of its own is therefore woken by a post, and while retry timers run, without an event; it then finds
//! none, which on real devices too is no harm.
//!
//! What goes wrong on real fabrics and devices can be made to go wrong here, by a seeded [`Script`] of
//! [`Fault`]s, so that a program can test what it does then; see `examples/faults.rs`.
//!
//! Where the kernel's rxe departs from the InfiniBand Architecture (IBA) the device follows IBA.
//!
//! What providers do differently within the manual pages, the device does on demand: a [`Personality`] is chosen when
//! its fabric is made ([`Fabric::with`]). Programs should be run on several; `worst` finds most.
//!
//! | | plain | rxe | mlx5 | worst |
//! |---|---|---|---|---|
//! | fields of `ibv_wc` without a meaning | zero | zero | not written: no value under Miri, else one that is wrong | any of these, or only what ibv_poll_cq(3) promises is written |
//! | `IBV_WC_WITH_IMM` when a send or write with immediate completes | no | yes, `imm_data` 0 | yes, `imm_data` not written | any of these |
//! | `IBV_WC_GRH` of a receive on RC or UC | no | yes | no | either |
//! | completions of a queue pair that is destroyed or reset, and that nobody polled | stay | stay | go; shared receive queues have their slots back | either, for each completion queue |
//! | a receive's slot is free again | when it is filled | when it is filled | when its completion is polled, or goes | either, for each receive |
//! | the 20 bytes before an IPv4 header | zero | zero | anything, a 6 in front too | either |
//! | an element of length 0 | has no bytes | has no bytes | has no bytes | that, or 2^31 bytes (R3.3) |
//! | attributes that ibv_query_qp(3) was not asked for | right | right | right | right, or wrong |
//! | a failed poll returns | -1 | -1 | -2 | either |
//!
//! What no machine of ours has, a [`World`] has: an InfiniBand port (LIDs, and no GRH unless asked for), IPv6 behind a
//! GRH, a device that grants more than it was asked for, or less; [`Fabric::break_device`] is the end of one.
//!
//! | file | what |
//! |---|---|
//! | `fabric` | the one lock, and what is behind it |
//! | `memory`, `address`, `channel`, `cq`, `srq`, `qp` | the objects, by number |
//! | `signal`, `asynchronous` | descriptors to sleep on, and the events of devices |
//! | `modify`, `attributes` | which transitions exist, and which values |
//! | `personality`, `world` | what devices may do differently, and what they are |
//! | `script`, `faults` | what goes wrong, and what that does |
//! | `strict` | what no correct crate does |
//! | `engine`, `requester`, `responder`, `datagram` | the work |
//! | `entry/` | the C boundary: pointers in, numbers on |
//! | `control` | the control path's table |

mod address;
mod asynchronous;
mod attributes;
mod channel;
pub(crate) mod control;
mod cq;
mod datagram;
mod engine;
mod entry;
mod fabric;
mod faults;
mod memory;
mod modify;
mod personality;
mod qp;
mod requester;
mod responder;
mod script;
mod signal;
mod srq;
mod strict;
mod world;
mod wr;

#[cfg(test)]
mod tests;

pub(crate) use control::LOOPBACK;
pub use fabric::Fabric;
#[doc(hidden)]
pub use fabric::is_at_work;
pub use personality::{Personality, UnknownPersonality};
pub use script::{Fault, Injected, Rule, Script};
pub use world::{Grants, Limit, World};

/// What the device offers; `query_device` and `query_port` report these.
mod limits {
    pub(super) const QP_WR: u32 = 16384;
    pub(super) const SGE: u32 = 32;
    pub(super) const INLINE: u32 = 1024;
    pub(super) const CQE: u32 = 1 << 20;
    pub(super) const SRQ_WR: u32 = 16384;
    pub(super) const RD_ATOMIC: u8 = 16;
    pub(super) const COMP_VECTORS: i32 = 1;
    pub(super) const GIDS: usize = 16;
    /// The port's MTU, in bytes and as `IBV_MTU_4096`.
    pub(super) const MTU: usize = 4096;
    pub(super) const MTU_CODE: u32 = 5;
    /// As Soft-RoCE's.
    pub(super) const MESSAGE: u64 = 8 << 20;
    /// QP numbers and packet sequence numbers have 24 bits.
    pub(super) const BITS_24: u32 = 0xff_ffff;
}

/// What a verb gives: its result, or the errno.
type Verb<T = ()> = Result<T, std::ffi::c_int>;

impl Fabric {
    /// Opens a new device on the fabric ("loop0", "loop1" and so on).
    #[allow(unsafe_code)] // takes ownership of the C object
    pub fn open_device(&self) -> crate::Context {
        // SAFETY: just opened, and owned by nobody else.
        let handle = unsafe { crate::sys::handle::Context::new(self.open(), &LOOPBACK, ()) };
        crate::Context::from_handle(handle)
    }
}
