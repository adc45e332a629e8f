//! A software RDMA device, in pure Rust, inside this process.
//!
//! Devices opened on one [`Fabric`] can reach each other. As with hardware, a device does the work
//! after the post has returned. The post itself only makes the checks of libibverbs' providers and
//! copies the work request. Every other verb first runs the whole fabric until nothing more can
//! happen. The fabric uses no threads, no system clock and no randomness, so a program that makes
//! the same calls gets the same completions.
//!
//! Only verb calls run the fabric. So a program that sleeps on a descriptor in its own event loop
//! may wake up without an event: after a post, or while retry timers run. Real devices may do that,
//! too.
//!
//! Calls that find nothing to do use up retries (`rnr_retry`, `retry_cnt`), so that retrying ends
//! in a single-threaded program. A test with several threads can [stop the
//! clock](Fabric::stop_clock). A send then waits until its peer is ready, or until the test
//! [advances the clock](Fabric::advance) beyond its retries.
//!
//! To test how a program handles the faults of real fabrics and devices, inject them with a seeded
//! [`Script`] of [`Fault`]s; see `examples/faults.rs`.
//!
//! rdma_cm runs on a fabric, too: see the module `cm`.
//!
//! If the kernel's rxe differs from the InfiniBand Architecture (IBA), the device follows IBA.
//!
//! The manual pages leave some behaviour open, and providers differ in it. A [`Personality`], set
//! when the fabric is created ([`Fabric::with`]), selects this behaviour. Run your tests with
//! several; `worst` finds most mistakes.
//!
//! | | plain | rxe | mlx5 | worst |
//! |---|---|---|---|---|
//! | fields of `ibv_wc` without a meaning | zero | zero | not written: uninitialised under Miri, otherwise a wrong value | any of these, or only the fields that ibv_poll_cq(3) promises are written |
//! | `IBV_WC_WITH_IMM` when a send or write with immediate completes | no | yes, `imm_data` 0 | yes, `imm_data` not written | any of these |
//! | `IBV_WC_GRH` of a receive on RC or UC | no | yes | no | either |
//! | completions, not yet polled, of a queue pair that is destroyed or reset | stay | stay | are removed; shared receive queues get their slots back | either, for each completion queue |
//! | a receive's slot is free again | when it is filled | when it is filled | when its completion is polled or removed | either, for each receive |
//! | the 20 bytes before an IPv4 header | zero | zero | arbitrary, possibly starting with 6 | either |
//! | an element of length 0 | has no bytes | has no bytes | has no bytes | no bytes, or 2^31 bytes ([R3.3](crate::guide::rules#r3-3)) |
//! | attributes outside the mask of ibv_query_qp(3) | correct | correct | correct | correct or wrong |
//! | a failed poll returns | -1 | -1 | -2 | either |
//! | device memory, dma-buf, `ibv_rereg_mr` | yes | no | yes | yes |
//! | thread domains and parent domains | yes | no | yes | either |
//! | single-threaded completion queues | yes | yes | yes | either |
//! | timestamps of completions | from 0 on | no | soon wrap to 0 | like mlx5 |
//! | copies to and from device memory | of bytes | | of 4 aligned bytes | either |
//! | a send fails when its retries are used up | in time | in time | in time | up to four times later |
//! | keys of a region that is re-registered | new | | the old ones | either |
//! | the flag of a message that invalidated a key | `IBV_WC_WITH_INV` | the kernel's flag, `1 << 2` | `IBV_WC_WITH_INV` | `IBV_WC_WITH_INV` |
//! | LOCAL_INV of an invalid key | fails | panics, because it crashes that kernel | fails | fails |
//! | the number of a deallocated window | is not reused | is not reused | is reused by the next window | either |
//! | `ibv_dereg_mr` of a region with a bound window | EINVAL | EINVAL | deregisters it | either |
//!
//! A [`World`] describes devices that a test machine rarely has: InfiniBand ports (LIDs, and a GRH
//! only on request), IPv6 in a GRH, EFA's SRD, which delivers in an order that a seed determines,
//! and devices that grant more or less than requested. [`Fabric::break_device`] makes a device fail
//! permanently.

mod pair;
mod srd_pair;
mod xrc_pair;

#[cfg(feature = "cm")]
pub(crate) use pair::device;
pub use pair::{DatagramPair, Pair, datagram_pair, pair, pair_of, poll, uc_pair};
#[cfg(feature = "cm")]
pub(crate) use proverbs_loopback::cm;
#[doc(hidden)]
pub use proverbs_loopback::is_at_work;
#[doc(inline)]
pub use proverbs_loopback::{
    Capacity, Fault, Grants, Injected, Personality, Rule, Script, UnknownPersonality, World,
};
pub use srd_pair::{Spreading, SrdPair, srd_pair};
pub use xrc_pair::{Initiating, XrcPair, xrc_pair};
#[cfg(test)]
pub(crate) use {pair::pair_on, proverbs_loopback::LOOPBACK};

#[cfg(feature = "cm")]
use std::net::IpAddr;
use std::time::Duration;

use crate::device::Context;
use crate::memory::{Access, RemoteSlice};
use crate::terms::error::Error;

/// A software fabric for the [loopback](crate::loopback) device. The devices opened on it can reach
/// each other.
///
/// A clone is another handle to the same fabric.
///
/// ```
/// use proverbs::{loopback::{Fabric, Fault, Injected, Script}, prelude::*};
/// use proverbs::{completion::Direction, state::QpState};
///
/// let fabric = Fabric::new();
/// let (one, two) = (fabric.open_device(), fabric.open_device());
/// assert_eq!((one.name(), two.name()), ("loop0".to_owned(), "loop1".to_owned()));
///
/// // The first posted receive is rejected.
/// fabric.inject(Script::default().with(Fault::Refuse { errno: 12 }.nth(0).posting(Direction::Receive)));
/// # let pd = one.alloc_pd()?;
/// # let cq = one.create_cq(16)?;
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 })?;
/// # let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// assert!(qp.post_recv(wr::Recv::empty()).unwrap_err().is_full()); // ENOMEM
/// let seen: Injected = fabric.injected();
/// assert_eq!(seen.refuse, 1);
/// assert_eq!(seen.by_kind().iter().map(|(_, count)| count).sum::<u64>(), 1); // and no other fault
///
/// // The device moves the queue pair to ERR by itself.
/// assert!(fabric.fail(qp.qp_num()));
/// assert_eq!(qp.query()?.state, Some(QpState::Err));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Fabric(pub(crate) proverbs_loopback::Fabric);

impl Fabric {
    /// A fabric without devices.
    pub fn new() -> Fabric {
        Fabric::default()
    }

    /// A fabric with this [`World`], or with devices of this [`Personality`].
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, Personality, World}, prelude::*};
    /// let worst = Personality::worst(1);
    /// for fabric in [Fabric::with(worst), Fabric::with(World::infiniband().personality(worst))] {
    ///     assert_eq!(fabric.open_device().name(), "loop0");
    /// }
    /// ```
    pub fn with(world: impl Into<World>) -> Fabric {
        Fabric(proverbs_loopback::Fabric::with(world))
    }

    /// Opens a new device on the fabric ("loop0", "loop1" and so on).
    pub fn open_device(&self) -> Context {
        Context { handle: self.0.open_device() }
    }

    /// Injects the faults of `script` from now on; `Script::default()` ends all faults that have
    /// not begun. It does not change work requests that have begun or messages in flight.
    pub fn inject(&self, script: Script) {
        self.0.inject(script);
    }

    /// The number of injected faults since the fabric was created, by kind.
    pub fn injected(&self) -> Injected {
        self.0.injected()
    }

    /// Breaks a device of this fabric: it raises an event
    /// ([`DeviceEvent::DeviceFatal`](crate::device::DeviceEvent::DeviceFatal)) and stops working.
    /// Posts still succeed, but posted work never completes. Other verbs return EIO, except those
    /// that destroy objects. Returns false if the device does not belong to this fabric, or was
    /// already broken.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// use proverbs::device::DeviceEvent;
    /// let fabric = Fabric::new();
    /// let context = fabric.open_device();
    /// let mut events = context.events()?;
    /// assert!(fabric.break_device(&context));
    /// assert_eq!(events.wait()?, DeviceEvent::DeviceFatal);
    /// assert!(context.alloc_pd().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn break_device(&self, device: &Context) -> bool {
        self.0.break_device(&device.handle)
    }

    /// Raises an asynchronous event of the device or of its port. `event_type` is a value of `enum
    /// ibv_event_type` (18 is a change of the GID table) or an unknown number. Returns false if the
    /// device does not belong to this fabric, or if the event belongs to another kind of object.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, prelude::*};
    /// use proverbs::device::DeviceEvent;
    /// let fabric = Fabric::new();
    /// let context = fabric.open_device();
    /// let mut events = context.events()?;
    /// assert!(fabric.raise(&context, 77)); // from a kernel that is newer than this crate
    /// assert_eq!(events.wait()?, DeviceEvent::Other(77));
    /// assert!(!fabric.raise(&context, 1), "of a queue pair");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raise(&self, device: &Context, event_type: u32) -> bool {
        self.0.raise(&device.handle, event_type)
    }

    /// Binds a type 2 memory window of the device to `slice`, a slice of a region of this fabric,
    /// like `ibv_bind_mw` (ibv_bind_mw(3)). The returned slice has its own key, which SEND_WITH_INV
    /// and LOCAL_INV invalidate. Until then, the region cannot be deregistered
    /// ([R6.11](crate::guide::rules#r6-11)).
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os): EINVAL if the slice does not belong to a region of
    /// this fabric.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// # let proverbs::loopback::Pair { mut a, b: _b, mut cq, pd, fabric, .. } =
    /// #     proverbs::loopback::pair()?;
    /// let region = pd.register::<RemoteWrite>(64)?;
    /// let window = fabric.open_window(region.remote().slice(8, 8)?)?;
    /// a.post_send(wr::RdmaWrite::inline(b"8 bytes!", window.write()))?;
    /// # proverbs::loopback::poll(&mut cq, 1)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn open_window<A: Access>(&self, slice: RemoteSlice<A>) -> Result<RemoteSlice<A>, Error> {
        let (addr, len) = (slice.addr(), slice.len());
        let opened = self.0.open_window(addr, len, slice.rkey());
        let asked = "the slice does not belong to a region of this fabric";
        let rkey = opened.map_err(|errno| Error::os("ibv_bind_mw", errno, asked))?;
        Ok(RemoteSlice::from_parts(addr, len, rkey))
    }

    /// Invalidates the key of a window of [`open_window`](Self::open_window), like LOCAL_INV.
    /// Returns whether it was valid.
    pub fn close_window<A: Access>(&self, window: RemoteSlice<A>) -> bool {
        self.0.close_window(window.rkey())
    }

    /// Moves the queue pair with this number to ERR, as a device does by itself
    /// ([R8.15](crate::guide::rules#r8-15)). Its posted work is flushed. Returns false if there is
    /// no such queue pair, or if it is in RESET.
    pub fn fail(&self, qp_num: u32) -> bool {
        self.0.fail(qp_num)
    }

    /// Stops the clock of the fabric. From now on only [`advance`](Self::advance) moves its time.
    ///
    /// Without this, the retries of a send are used up while the fabric is idle, by polls of any
    /// thread that find nothing. So a peer on another thread may post its receive too late. While
    /// the clock is stopped, no retries are used up, regardless of how often and on how many
    /// threads the program polls. A send succeeds as soon as its peer is ready.
    ///
    /// The clock cannot be started again, and stopping it twice has no effect. Faults that count
    /// runs of the fabric ([`Fault::Delay`], [`Fault::FlushLate`]) do not use the clock.
    ///
    /// ```
    /// # use proverbs::loopback::{self, Pair, Fault, Script};
    /// # use proverbs::prelude::*;
    /// use proverbs::bounded::Timeout;
    /// use std::time::Duration;
    ///
    /// let Pair { fabric, mut a, mut cq, .. } = loopback::pair()?;
    /// fabric.stop_clock();
    /// fabric.inject(Script::default().with(Fault::NoAnswer.always())); // the peer is dead
    ///
    /// a.post_send(wr::Send::inline(b"are you there?"))?;
    /// let wait = fabric.next_timer().ok_or("nothing waits")?;
    /// // Six retries of 67 ms each, without an answer: the values of `RcRts::new`.
    /// assert_eq!(wait, 7 * Timeout::MS_67.duration().unwrap());
    ///
    /// fabric.advance(wait - Duration::from_nanos(1));
    /// assert_eq!(cq.poll()?.count(), 0);
    /// fabric.advance(Duration::from_nanos(1));
    /// let failed = cq.poll()?.next().ok_or("no completion")?;
    /// assert_eq!(failed.status().unwrap_err().status, WcStatus::RetryExc);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_clock(&self) {
        self.0.stop_clock();
    }

    /// [Stops](Self::stop_clock) the clock of the fabric, and advances it by `time`. The devices
    /// run at the old time, and then each time that a timer expires during the advance, in order.
    ///
    /// A send on RC fails with
    ///
    /// - [`RnrRetryExc`](crate::completion::WcStatus::RnrRetryExc) when its peer had no receive for
    ///   `rnr_retry` times the peer's `min_rnr_timer` ([R8.11](crate::guide::rules#r8-11));
    /// - [`RetryExc`](crate::completion::WcStatus::RetryExc) when no answer came for `retry_cnt` +
    ///   1 times its `timeout` ([R8.10](crate::guide::rules#r8-10),
    ///   [R8.9](crate::guide::rules#r8-9)).
    ///
    /// Devices may take longer; [`Personality::Worst`] takes up to four times as long. Timestamps
    /// of completions ([`CompletionTs`](crate::ext::extended_polling::CompletionTs)) move with the
    /// clock.
    pub fn advance(&self, time: Duration) {
        self.0.advance(time);
    }

    /// The time until the next send fails, after the devices have done everything that they can do
    /// now. `None` if no send waits, if all wait forever, or if the clock was not
    /// [stopped](Self::stop_clock).
    ///
    /// With this, a test can detect that a program on another thread waits for a send:
    ///
    /// ```
    /// # use proverbs::{loopback::{self, Pair}, prelude::*};
    /// let Pair { fabric, mut a, b, mut cq, .. } = loopback::pair()?;
    /// fabric.stop_clock();
    /// let _silent = b.to_error()?;
    /// std::thread::scope(|scope| {
    ///     let program = scope.spawn(move || {
    ///         a.post_send(wr::Send::inline(b"are you there?")).unwrap();
    ///         loop {
    ///             if let Some(done) = cq.poll().unwrap().next() {
    ///                 break done.status().unwrap_err().status;
    ///             }
    ///         }
    ///     });
    ///     let wait = loop {
    ///         match fabric.next_timer() {
    ///             Some(wait) => break wait,
    ///             None => std::thread::yield_now(),
    ///         }
    ///     };
    ///     fabric.advance(wait);
    ///     assert_eq!(program.join().unwrap(), WcStatus::RetryExc);
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn next_timer(&self) -> Option<Duration> {
        self.0.next_timer()
    }
}

#[cfg(feature = "cm")]
impl Fabric {
    /// The IP address of a device of this fabric: 10.0.0.1 for the first one, or fd00::1 in a world
    /// with IPv6, and so on. `None` if the device belongs to another fabric.
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, World}, prelude::*};
    /// let fabric = Fabric::new();
    /// let (one, two) = (fabric.open_device(), fabric.open_device());
    /// assert_eq!(fabric.ip_of(&one), Some("10.0.0.1".parse()?));
    /// assert_eq!(fabric.ip_of(&two), Some("10.0.0.2".parse()?));
    /// assert_eq!(Fabric::with(World::ipv6()).ip_of(&one), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ip_of(&self, device: &Context) -> Option<IpAddr> {
        self.0.ip_of(&device.handle)
    }

    /// Removes a device from rdma_cm, as if it were unplugged. Each of its ids receives
    /// RDMA_CM_EVENT_DEVICE_REMOVAL, and no other event after that. Its address is gone, and peers
    /// on other devices are notified that their peer left. Objects on the device work until they
    /// are dropped. Returns false if the device does not belong to this fabric, or was already
    /// removed.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// let fabric = Fabric::new();
    /// let device = fabric.open_device();
    /// let channel = EventChannel::on(&fabric)?;
    /// let id = channel.create_id::<Tcp>()?.bind_addr("10.0.0.1:7471".parse()?)?;
    /// assert!(fabric.remove_device(&device));
    /// assert_eq!(channel.wait()?.kind(), EventKind::DeviceRemoval);
    /// # drop(id);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_device(&self, device: &Context) -> bool {
        self.0.remove_device(&device.handle)
    }

    /// Removes a device like [`remove_device`](Self::remove_device), and adds another one with the
    /// same name and addresses, as when a driver is reset or reloaded. The program's objects on the
    /// old device stay, but no messages reach them any more. `None` if the device does not belong
    /// to this fabric, or was already removed.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # use std::time::Duration;
    /// let fabric = Fabric::new();
    /// let old = fabric.open_device();
    /// let buf = old.alloc_pd()?.create_pool(1, 64)?.take(); // keeps the device open
    /// let new = fabric.replace_device(&old).ok_or("it was there")?;
    /// assert_eq!((new.name(), fabric.ip_of(&new)), (old.name(), fabric.ip_of(&old)));
    ///
    /// let second = Duration::from_secs(1);
    /// let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr("10.0.0.1:7471".parse()?, second)?;
    /// let (pd, cq) = (id.pd()?, new.create_cq(16)?); // of the new device
    /// let qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 4, recv: 4 })?;
    /// # drop((qp, buf));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn replace_device(&self, device: &Context) -> Option<Context> {
        self.0.replace_device(&device.handle).map(|handle| Context { handle })
    }

    /// Makes a device neither send nor receive messages of rdma_cm, as if its cable were pulled, or
    /// reverses this. A call that needs an answer fails at once with a timeout. Returns false if
    /// the device does not belong to this fabric.
    ///
    /// ```
    /// # use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// # use std::time::Duration;
    /// let fabric = Fabric::new();
    /// let device = fabric.open_device();
    /// fabric.silence_device(&device, true);
    /// let at = "10.0.0.1:7471".parse()?;
    /// let refused = CmId::<Tcp, _>::on(&fabric)?.resolve_addr(at, Duration::from_secs(60));
    /// let refused = refused.unwrap_err(); // at once
    /// assert!(matches!(refused.error.kind(), ErrorKind::Cm { status: -110, .. })); // ETIMEDOUT
    /// fabric.silence_device(&device, false);
    /// refused.into_object().resolve_addr(at, Duration::from_secs(60))?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn silence_device(&self, device: &Context, silent: bool) -> bool {
        self.0.silence_device(&device.handle, silent)
    }
}

impl_debug!(Fabric, |_| "Fabric {{ .. }}");
