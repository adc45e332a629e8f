//! The fabric: every device's objects behind one lock.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Verb;
use super::address::{Ah, Gids};
use super::asynchronous::AsyncEvents;
use super::channel::Channel;
use super::cq::Cq;
use super::faults::Faults;
use super::memory::{Mr, Pd};
use super::personality::Habits;
use super::qp::{Phase, Qp};
use super::script::{Injected, Script};
use super::srq::Srq;
use super::strict::Calls;
use super::world::World;
use crate::sys::types::ibv_context;

/// A software fabric for the [loopback](crate::loopback) device: the devices opened on it reach each other.
///
/// A clone is another handle to the same fabric.
///
/// ```
/// use proverbs::{loopback::{Fabric, Fault, Injected, Script}, *};
///
/// let fabric = Fabric::new();
/// let (one, two) = (fabric.open_device(), fabric.open_device());
/// assert_eq!((one.name(), two.name()), ("loop0".to_owned(), "loop1".to_owned()));
///
/// // The first receive that is posted is refused.
/// fabric.inject(Script::default().with(Fault::Refuse { errno: 12 }.nth(0).posting(Direction::Receive)));
/// # let pd = one.alloc_pd()?;
/// # let cq = one.create_cq(16)?;
/// # let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 1, recv: 1 })?;
/// # let mut qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
/// assert!(qp.post_recv(Recv::empty()).unwrap_err().is_full()); // ENOMEM
/// let seen: Injected = fabric.injected();
/// assert_eq!(seen.refuse, 1);
/// assert_eq!(seen.by_kind().iter().map(|(_, count)| count).sum::<u64>(), 1); // and nothing else
///
/// // The device moves the queue pair to ERR by itself.
/// assert!(fabric.fail(qp.qp_num()));
/// assert_eq!(qp.query()?.state, Some(QpState::Error));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Fabric(Arc<Shared>);

impl Fabric {
    /// A fabric without devices.
    pub fn new() -> Fabric {
        Fabric::default()
    }

    /// A fabric of this [`World`], or with devices of this [`Personality`](super::Personality).
    ///
    /// ```
    /// # use proverbs::{loopback::{Fabric, Personality, World}, *};
    /// let worst = Personality::worst(1);
    /// for fabric in [Fabric::with(worst), Fabric::with(World::infiniband().personality(worst))] {
    ///     assert_eq!(fabric.open_device().name(), "loop0");
    /// }
    /// ```
    pub fn with(world: impl Into<World>) -> Fabric {
        let world = world.into();
        let state = State { habits: Habits::of(world.personality), world, ..State::default() };
        Fabric(Arc::new(Shared { state: Mutex::new(state), ..Shared::default() }))
    }

    /// Opens a new device on the fabric: "loop0", "loop1" and so on.
    ///
    /// The context lives until `LOOPBACK.close_device`.
    pub(crate) fn open(&self) -> NonNull<ibv_context> {
        super::entry::open(&self.0)
    }

    #[cfg(test)]
    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    /// From now on, what the script says goes wrong; `Script::default()` ends all faults but those that have
    /// begun. Work requests that were begun already, and messages on their way, keep what was decided.
    pub fn inject(&self, script: Script) {
        self.0.post(|state| state.inject(script));
    }

    /// The faults injected since the fabric was made, counted by kind.
    pub fn injected(&self) -> Injected {
        self.0.post(|state| state.faults.injected)
    }

    /// Breaks a device of this fabric: it tells so by an event
    /// ([`DeviceEvent::DeviceFatal`](crate::DeviceEvent::DeviceFatal)), and does nothing any more. What was posted to it
    /// never completes, what is posted is taken, and other verbs give EIO, but for those that destroy. Whether the
    /// device is of this fabric, and was not broken.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, *};
    /// let fabric = Fabric::new();
    /// let context = fabric.open_device();
    /// let mut events = context.events()?;
    /// assert!(fabric.break_device(&context));
    /// assert_eq!(events.wait()?, DeviceEvent::DeviceFatal);
    /// assert!(context.alloc_pd().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn break_device(&self, device: &crate::Context) -> bool {
        self.number_of(device).is_some_and(|number| self.0.post(|state| state.break_device(number)))
    }

    /// A device of this fabric has an asynchronous event that speaks of the device or of its port, by the number that
    /// `enum ibv_event_type` has for it: 18 is a change of the GID table; or one that nobody knows. Whether the device
    /// is of this fabric, and the event of that kind.
    ///
    /// ```
    /// # use proverbs::{loopback::Fabric, *};
    /// let fabric = Fabric::new();
    /// let context = fabric.open_device();
    /// let mut events = context.events()?;
    /// assert!(fabric.raise(&context, 77)); // of a kernel that is newer than this crate
    /// assert_eq!(events.wait()?, DeviceEvent::Other(77));
    /// assert!(!fabric.raise(&context, 1), "of a queue pair");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn raise(&self, device: &crate::Context, event_type: u32) -> bool {
        let number = self.number_of(device);
        number.is_some_and(|number| self.0.post(|state| state.raise_device(number, event_type)))
    }

    fn number_of(&self, device: &crate::Context) -> Option<u32> {
        super::entry::number_on(&self.0, &device.handle)
    }

    /// Moves the queue pair with this number to ERR, as a device does by itself (R8.15). What was posted is
    /// flushed. Whether there is such a queue pair, and not in RESET.
    pub fn fail(&self, qp_num: u32) -> bool {
        self.0.post(|state| {
            let there = state.qps.get(&qp_num).is_some_and(|qp| qp.phase != Phase::Reset);
            if there {
                state.enter(qp_num, Phase::Err);
            }
            there
        })
    }
}

impl fmt::Debug for Fabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fabric").finish_non_exhaustive()
    }
}

thread_local! {
    static AT_WORK: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is inside a device, whose allocations are not those of a program that drives it.
#[doc(hidden)]
pub fn is_at_work() -> bool {
    AT_WORK.get() != 0
}

/// This thread is inside a device.
struct AtWork;

impl AtWork {
    fn begin() -> AtWork {
        AT_WORK.set(AT_WORK.get() + 1);
        AtWork
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.set(AT_WORK.get() - 1);
    }
}

/// What the devices of a fabric share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    calls: Mutex<Calls>,
}

impl Shared {
    /// No verb leaves the state half changed, so the state behind a poisoned lock is as good as any.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A post: the devices do not work before it has returned.
    pub(super) fn post<R>(&self, post: impl FnOnce(&mut State) -> R) -> R {
        let _at_work = AtWork::begin();
        let mut state = self.lock();
        let result = post(&mut state);
        state.ring();
        result
    }

    /// Any other verb: the devices work until nothing more can happen, then the verb is done.
    pub(super) fn verb<R>(&self, verb: impl FnOnce(&mut State) -> R) -> R {
        let _at_work = AtWork::begin();
        let mut state = self.lock();
        state.run();
        let result = verb(&mut state);
        if state.timers_run() {
            state.ring();
        }
        result
    }

    /// As `verb`, but one that others need not hear of, so that pollers do not wake each other.
    pub(super) fn poll<R>(&self, poll: impl FnOnce(&mut State) -> R) -> R {
        let _at_work = AtWork::begin();
        let mut state = self.lock();
        state.run();
        let result = poll(&mut state);
        if state.timers_run() {
            state.ring();
        }
        result
    }
}

/// Everything on the fabric, by number. Numbers are never used again, so a stale one finds nothing.
#[derive(Default)]
pub(super) struct State {
    numbers: u32,
    pub(super) devices: BTreeMap<u32, Gids>,
    pub(super) pds: BTreeMap<u32, Pd>,
    pub(super) mrs: BTreeMap<u32, Mr>,
    pub(super) ahs: BTreeMap<u32, Ah>,
    pub(super) channels: BTreeMap<u32, Channel>,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, Srq>,
    pub(super) qps: BTreeMap<u32, Qp>,
    /// By device.
    pub(super) asyncs: BTreeMap<u32, AsyncEvents>,
    /// The QPs that the engine has to look at.
    pub(super) active: BTreeSet<u32>,
    pub(super) faults: Faults,
    pub(super) habits: Habits,
    pub(super) world: World,
    /// The devices that are broken.
    pub(super) broken: BTreeSet<u32>,
    /// Datagrams with a wrong Q_Key, by the device that dropped them (R5.5).
    pub(super) qkey_violations: BTreeMap<u32, u16>,
    devices_opened: u32,
}

impl State {
    /// A number for a new object. 24 bits, so that it serves as QP number and in memory keys.
    pub(super) fn number(&mut self) -> Verb<u32> {
        // QP numbers 0 and 1 are not for everyone.
        let number = self.numbers.max(0x10) + 1;
        if number > super::limits::BITS_24 {
            return Err(libc::ENOMEM);
        }
        self.numbers = number;
        Ok(number)
    }

    pub(super) fn open_device(&mut self) -> u32 {
        let number = self.devices_opened;
        self.devices_opened = number.wrapping_add(1);
        self.devices.insert(number, Gids::of_device(number, self.world.link));
        number
    }

    /// Unlike libibverbs, which closes a context under its objects and leaves them dangling.
    pub(super) fn close_device(&mut self, device: u32) -> Verb {
        self.destroy_fault(None)?;
        let used = self.pds.values().any(|pd| pd.device == device)
            || self.cqs.values().any(|cq| cq.device == device)
            || self.channels.values().any(|channel| channel.device == device);
        if used {
            return Err(libc::EBUSY);
        }
        self.asyncs.remove(&device);
        self.devices.remove(&device).map(drop).ok_or(libc::EINVAL)
    }
}
