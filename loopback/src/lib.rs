//! A software RDMA device, in pure Rust, inside this process: a provider of the verbs of
//! `proverbs-sys`.
//!
//! Programs use `proverbs::loopback`, which has the documentation. Everything here may change with
//! any release: `proverbs` requires exactly one. Nevertheless each public item is sound for any
//! caller.
//!
//! | file | what |
//! |---|---|
//! | `fabric` | the one lock, and the state behind it |
//! | `memory`, `window`, `device_memory`, `address`, `channel`, `cq`, `srq`, `qp` | the objects, by number |
//! | `signal`, `asynchronous` | descriptors to sleep on, and the events of devices |
//! | `multicast` | the groups of datagrams |
//! | `cm/` | rdma_cm: ids, their events, and the boundary to C |
//! | `migration` | two paths to a peer, on InfiniBand |
//! | `modify`, `attributes` | the transitions that exist, and the legal values |
//! | `personality`, `world` | how devices may differ, and their properties |
//! | `clock` | the times of completions, and the clock that a test moves |
//! | `xrc` | XRC domains, and what a target is while it serves |
//! | `lanes` | thread domains, and which threads use what is in one |
//! | `script`, `faults` | injected faults, and their effects |
//! | `strict` | assertions on what no correct crate does |
//! | `engine`, `requester`, `responder`, `datagram`, `srd` | the work |
//! | `entry/` | the C boundary: pointers come in, numbers go on |
//! | `control` | the control path's table |

#![deny(unsafe_code)]
// A message that does not go out comes back by value.
#![allow(clippy::result_large_err)]

mod address;
mod asynchronous;
mod attributes;
mod channel;
mod clock;
#[cfg(feature = "cm")]
pub mod cm;
mod control;
mod cq;
mod datagram;
mod device_memory;
mod engine;
mod entry;
mod fabric;
mod faults;
mod injected;
mod lanes;
mod memory;
mod migration;
mod modify;
mod multicast;
mod on_demand;
mod personality;
mod qp;
mod requester;
mod responder;
mod script;
mod signal;
mod srd;
mod srq;
mod strict;
mod tuning;
mod window;
mod world;
mod wr;
mod xrc;

#[cfg(test)]
mod tests;

pub use control::LOOPBACK;
pub use fabric::Fabric;
#[doc(hidden)]
pub use fabric::is_at_work;
pub use injected::Injected;
pub use personality::{Personality, UnknownPersonality};
pub use script::{Fault, Rule, Script};
pub use world::{Capacity, Grants, World};

use std::sync::Arc;

use proverbs_sys::handle::Context;

/// What the device offers, as `query_device` and `query_port` report it.
mod limits {
    pub(super) const QP_WR: u32 = 16384;
    pub(super) const SGE: u32 = 32;
    pub(super) const INLINE: u32 = 1024;
    pub(super) const INLINE_SRD: u32 = 80;
    pub(super) const CQE: u32 = 1 << 20;
    pub(super) const SRQ_WR: u32 = 16384;
    pub(super) const RD_ATOMIC: u8 = 16;
    pub(super) const COMP_VECTORS: i32 = 2;
    /// Memory of a device's own, bytes.
    pub(super) const DEVICE_MEMORY: u64 = 1 << 17;
    pub(super) const GIDS: usize = 16;
    /// The port's largest MTU, `IBV_MTU_4096`.
    pub(super) const MTU_CODE: u32 = 5;
    /// The same as Soft-RoCE's.
    pub(super) const MESSAGE: u64 = 8 << 20;
    /// QP numbers and packet sequence numbers have 24 bits.
    pub(super) const BITS_24: u32 = 0xff_ffff;
}

/// The result of a verb, or the errno.
type Verb<T = ()> = Result<T, std::ffi::c_int>;

impl Fabric {
    /// Opens a new device on the fabric ("loop0", "loop1" and so on).
    pub fn open_device(&self) -> Arc<Context> {
        self.open_known(None)
    }

    /// Opens a device that ids of rdma_cm find, perhaps in the place of another.
    fn open_known(&self, place: Option<u32>) -> Arc<Context> {
        let context = Arc::new(self.open_at(place));
        #[cfg(feature = "cm")]
        self.shared().remember(&context);
        context
    }

    /// Opens a device that ids of rdma_cm do not know.
    pub fn open_alone(&self) -> Context {
        self.open_at(None)
    }

    #[allow(unsafe_code)] // takes ownership of the C object
    fn open_at(&self, place: Option<u32>) -> Context {
        let context = self.open(place);
        // SAFETY: the context was just opened, and has no other owner.
        unsafe { Context::new(context, &LOOPBACK, Default::default()) }
    }

    /// Removes a device, and brings another one with the same name and addresses. `None` if the
    /// device is not of this fabric, or was removed before.
    #[cfg(feature = "cm")]
    pub fn replace_device(&self, device: &Context) -> Option<Arc<Context>> {
        let number = self.number_of(device)?;
        let place = self.shared().post(|state| {
            let place = state.place_of(number);
            state.remove_device(number).then_some(place)
        })?;
        Some(self.open_known(Some(place)))
    }
}
