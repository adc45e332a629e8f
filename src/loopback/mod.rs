//! A software RDMA device, in pure Rust, inside this process.
//!
//! Devices opened on one [`Fabric`] reach each other. Like hardware, a device works after a post
//! has returned: a post makes the checks of libibverbs' providers and copies the work request.
//! Every other verb first lets the whole fabric work until nothing more can happen. The fabric uses
//! no thread, no clock of the machine and no randomness, so a program that makes the same calls
//! sees the same completions.
//!
//! Only calls of verbs make the fabric work. So a program that sleeps on a descriptor in its own
//! event loop is also woken by a post, and while retry timers run, without an event. Real devices
//! may do that, too.
//!
//! Retries (`rnr_retry`, `retry_cnt`) are used up by calls that find nothing, so that a program of
//! one thread sees them end. A program of several threads [stops the clock](Fabric::stop_clock):
//! then a send waits until its peer is ready, or until the test [moves the clock](Fabric::advance)
//! beyond its retries.
//!
//! Faults of real fabrics and devices can be injected by a seeded [`Script`] of [`Fault`]s, so that
//! a program can test how it handles them; see `examples/faults.rs`.
//!
//! rdma_cm runs on a fabric, too: see the module `cm`.
//!
//! Where the kernel's rxe departs from the InfiniBand Architecture (IBA), the device follows IBA.
//!
//! A [`Personality`], chosen when the fabric is made ([`Fabric::with`]), decides where providers
//! differ within the manual pages. Run programs on several; `worst` finds most mistakes.
//!
//! | | plain | rxe | mlx5 | worst |
//! |---|---|---|---|---|
//! | fields of `ibv_wc` without a meaning | zero | zero | not written: no value under Miri, else one that is wrong | any of these, or only what ibv_poll_cq(3) promises is written |
//! | `IBV_WC_WITH_IMM` when a send or write with immediate completes | no | yes, `imm_data` 0 | yes, `imm_data` not written | any of these |
//! | `IBV_WC_GRH` of a receive on RC or UC | no | yes | no | either |
//! | completions, not yet polled, of a queue pair that is destroyed or reset | stay | stay | are removed; shared receive queues get their slots back | either, for each completion queue |
//! | a receive's slot is free again | when it is filled | when it is filled | when its completion is polled, or goes | either, for each receive |
//! | the 20 bytes before an IPv4 header | zero | zero | anything, a 6 in front too | either |
//! | an element of length 0 | has no bytes | has no bytes | has no bytes | that, or 2^31 bytes ([R3.3](crate::guide::rules#r3-3)) |
//! | attributes that ibv_query_qp(3) was not asked for | right | right | right | right, or wrong |
//! | a failed poll returns | -1 | -1 | -2 | either |
//! | device memory, dma-buf, `ibv_rereg_mr` | yes | no | yes | yes |
//! | thread domains and parent domains | yes | no | yes | either |
//! | completion queues for one thread | yes | yes | yes | either |
//! | timestamps of completions | from 0 on | no | soon used up, and from 0 on again | as mlx5's |
//! | copies to and from device memory | of bytes | | of 4 aligned bytes | either |
//! | a send whose retries are over is given up | in time | in time | in time | up to four times later |
//! | keys of a region that is re-registered | new | | the old ones | either |
//! | the flag of a message that ended a key | `IBV_WC_WITH_INV` | the kernel's, `1 << 2` | `IBV_WC_WITH_INV` | `IBV_WC_WITH_INV` |
//! | LOCAL_INV of a key that has ended | fails | panics: it crashes that kernel | fails | fails |
//! | the number of a deallocated window | is not reused | is not reused | is the next window's | either |
//! | `ibv_dereg_mr` of a region with a bound window | EINVAL | EINVAL | deregisters it | either |
//!
//! A [`World`] describes devices that a test machine rarely has: InfiniBand ports (LIDs, and no GRH
//! unless asked for), IPv6 behind a GRH, EFA's SRD, which delivers in an order that a seed gives,
//! devices that grant more than asked for, or less.
//! [`Fabric::break_device`] makes a device fail for good.
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

mod address;
mod asynchronous;
mod attributes;
mod channel;
mod clock;
#[cfg(feature = "cm")]
pub(crate) mod cm;
pub(crate) mod control;
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
mod pair;
mod personality;
mod qp;
mod requester;
mod responder;
mod script;
mod signal;
mod srd;
mod srd_pair;
mod srq;
mod strict;
mod tuning;
mod window;
mod world;
mod wr;
mod xrc;
mod xrc_pair;

#[cfg(test)]
mod tests;

pub(crate) use control::LOOPBACK;
pub use fabric::Fabric;
#[doc(hidden)]
pub use fabric::is_at_work;
pub use injected::Injected;
#[cfg(test)]
pub(crate) use pair::pair_on;
pub use pair::{DatagramPair, Pair, datagram_pair, pair, pair_of, poll, uc_pair};
pub use personality::{Personality, UnknownPersonality};
pub use script::{Fault, Rule, Script};
pub use srd_pair::{Spreading, SrdPair, srd_pair};
pub use world::{Capacity, Grants, World};
pub use xrc_pair::{Initiating, XrcPair, xrc_pair};

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
    pub fn open_device(&self) -> crate::Context {
        self.open_known(None)
    }

    /// Opens a device that ids of rdma_cm find, perhaps in the place of another.
    fn open_known(&self, place: Option<u32>) -> crate::Context {
        let context = self.open_at(place);
        #[cfg(feature = "cm")]
        self.shared().remember(&context.handle);
        context
    }

    /// Opens a device that ids of rdma_cm do not know.
    #[cfg(test)]
    pub(crate) fn open_alone(&self) -> crate::Context {
        self.open_at(None)
    }

    #[allow(unsafe_code)] // takes ownership of the C object
    fn open_at(&self, place: Option<u32>) -> crate::Context {
        let context = self.open(place);
        // SAFETY: the context was just opened, and has no other owner.
        let handle =
            unsafe { crate::sys::handle::Context::new(context, &LOOPBACK, Default::default()) };
        crate::Context::from_handle(handle)
    }

    /// Removes a device, as [`remove_device`](Self::remove_device) does, and brings another one
    /// with the same name and addresses, as when a driver is reset or loaded again. What the
    /// program holds of the old device stays, and nothing reaches it any more. `None` if the device
    /// is not of this fabric, or was removed before.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # use std::time::Duration;
    /// let fabric = Fabric::new();
    /// let old = fabric.open_device();
    /// let buf = old.alloc_pd()?.create_pool(1, 64)?.take(); // keeps it open
    /// let new = fabric.replace_device(&old).ok_or("it was there")?;
    /// assert_eq!((new.name(), fabric.ip_of(&new)), (old.name(), fabric.ip_of(&old)));
    ///
    /// let second = Duration::from_secs(1);
    /// let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr("10.0.0.1:7471".parse()?, second)?;
    /// let (pd, cq) = (id.pd()?, new.create_cq(16)?); // of the new one
    /// let qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 4, recv: 4 })?;
    /// # drop((qp, buf));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "cm")]
    pub fn replace_device(&self, device: &crate::Context) -> Option<crate::Context> {
        let number = self.number_of(device)?;
        let place = self.shared().post(|state| {
            let place = state.place_of(number);
            state.remove_device(number).then_some(place)
        })?;
        Some(self.open_known(Some(place)))
    }
}
