//! The fabric: all devices' objects behind one lock.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_int;
use std::fmt;
use std::ptr::NonNull;
#[cfg(feature = "cm")]
use std::sync::Weak;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Verb;
use super::address::{Ah, Gid, Gids};
use super::asynchronous::AsyncEvents;
use super::channel::Channel;
use super::cq::Cq;
use super::device_memory::Dm;
use super::faults::Faults;
use super::injected::Injected;
use super::lanes::{Joint, Member, Td};
use super::memory::{Mr, Pd};
use super::personality::Habits;
use super::qp::{Phase, Qp};
use super::script::Script;
use super::srd::Shuffle;
use super::srq::Srq;
use super::strict::Calls;
use super::window::Window;
use super::world::World;
use super::xrc::Xrcd;
use proverbs_sys::handle;
use proverbs_sys::types::ibv_context;

/// A software fabric for the [loopback](crate) device: the devices opened on it reach
/// each other.
///
/// A clone is another handle to the same fabric.
#[derive(Clone, Default)]
pub struct Fabric(Arc<Shared>);

impl Fabric {
    /// A fabric without devices.
    pub fn new() -> Fabric {
        Fabric::default()
    }

    /// A fabric with this [`World`], or with devices of this [`Personality`](super::Personality).
    pub fn with(world: impl Into<World>) -> Fabric {
        let world = world.into();
        let (habits, shuffle) = (Habits::of(world.personality), Shuffle::of(world.srd));
        let state = State { habits, shuffle, world, ..State::default() };
        Fabric(Arc::new(Shared { state: Mutex::new(state), ..Shared::default() }))
    }

    /// Opens a new device on the fabric: "loop0", "loop1" and so on, or one in the place of
    /// another.
    ///
    /// The context lives until `LOOPBACK.close_device`.
    pub(crate) fn open(&self, place: Option<u32>) -> NonNull<ibv_context> {
        super::entry::open(&self.0, place)
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Injects the faults of `script` from now on; `Script::default()` ends all faults that have
    /// not begun. For work requests that have begun and messages on their way, the decision stands.
    pub fn inject(&self, script: Script) {
        self.0.post(|state| state.inject(script));
    }

    /// The number of injected faults since the fabric was made, by kind.
    pub fn injected(&self) -> Injected {
        self.0.post(|state| state.faults.injected)
    }

    /// Breaks a device of this fabric: it raises an event
    /// (`DeviceEvent::DeviceFatal`) and stops working.
    /// Posted work never completes, posts are accepted, and other verbs return EIO, except those
    /// that destroy. Returns false if the device is not of this fabric, or was broken before.
    pub fn break_device(&self, device: &handle::Context) -> bool {
        self.number_of(device).is_some_and(|number| self.0.post(|state| state.break_device(number)))
    }

    /// Raises an asynchronous event of the device or of its port, given by its number in
    /// `enum ibv_event_type` (18 is a change of the GID table) or by an unknown number. Returns
    /// false if the device is not of this fabric, or if the event is of another kind of object.
    pub fn raise(&self, device: &handle::Context, event_type: u32) -> bool {
        let number = self.number_of(device);
        number.is_some_and(|number| self.0.post(|state| state.raise_device(number, event_type)))
    }

    /// Binds a type 2 memory window of the device to `slice`, a piece of a region of this fabric,
    /// like `ibv_bind_mw` (ibv_bind_mw(3)). The slice returned has a key of its own, which
    /// SEND_WITH_INV and LOCAL_INV invalidate; until one of them does, the region cannot be
    /// deregistered ([R6.11]).
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: EINVAL if the slice is of no region of this fabric.
    ///
    /// [R6.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-11
    /// [`ErrorKind::Os`]: https://docs.rs/proverbs/latest/proverbs/enum.ErrorKind.html#variant.Os
    pub fn open_window(&self, addr: u64, len: u64, rkey: u32) -> Result<u32, c_int> {
        self.0.post(|state| state.open_window(rkey, addr, len))
    }

    /// Ends the key of a window of [`open_window`](Self::open_window), as LOCAL_INV would. Whether
    /// it was open.
    pub fn close_window(&self, rkey: u32) -> bool {
        self.0.post(|state| state.close_window(rkey))
    }

    pub(super) fn number_of(&self, device: &handle::Context) -> Option<u32> {
        super::entry::number_on(&self.0, device)
    }

    /// Moves the queue pair with this number to ERR, as a device does by itself
    /// ([R8.15]). Its posted work is flushed. Returns false if there is
    /// no such queue pair, or if it is in RESET.
    ///
    /// [R8.15]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-15
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

/// Whether this thread is inside a loopback device. A test that counts allocations leaves out those
/// made there, since a real device makes none of them.
///
/// ```
/// use std::cell::Cell;
///
/// thread_local!(static ALLOCATIONS: Cell<u64> = const { Cell::new(0) });
///
/// /// To be called by the test's `GlobalAlloc`.
/// fn count() {
///     if !proverbs::loopback::is_at_work() {
///         ALLOCATIONS.set(ALLOCATIONS.get() + 1);
///     }
/// }
/// # count();
/// # assert_eq!(ALLOCATIONS.get(), 1);
/// ```
pub fn is_at_work() -> bool {
    AT_WORK.get() != 0
}

/// Marks that this thread is inside a device, while it exists.
struct AtWork;

impl AtWork {
    fn begin() -> AtWork {
        AT_WORK.with(|depth| depth.set(depth.get() + 1));
        AtWork
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        AT_WORK.with(|depth| depth.set(depth.get() - 1));
    }
}

/// The state that the devices of a fabric share.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    calls: Mutex<Calls>,
    /// The open devices by number, for the ids of rdma_cm.
    #[cfg(feature = "cm")]
    open: Mutex<BTreeMap<u32, Weak<handle::Context>>>,
}

impl Shared {
    /// Every verb leaves the state whole, so the state behind a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "cm")]
    pub(super) fn remember(self: &Arc<Self>, context: &Arc<handle::Context>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, context| context.strong_count() != 0);
        if let Some(number) = super::entry::number_on(self, context) {
            open.insert(number, Arc::downgrade(context));
        }
    }

    /// The context of a device. It is not to be dropped while the state is locked, since that may
    /// close the device.
    #[cfg(feature = "cm")]
    pub(super) fn context(&self, device: u32) -> Option<Arc<handle::Context>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&device)?.upgrade()
    }

    /// A post: the devices do not work before it returned.
    pub(super) fn post<R>(&self, post: impl FnOnce(&mut State) -> R) -> R {
        let _at_work = AtWork::begin();
        let mut state = self.lock();
        let result = post(&mut state);
        state.ring();
        result
    }

    /// Any other verb: the devices first work until nothing more can happen, then the verb runs.
    /// Others are woken only while timers run, so that pollers do not wake each other.
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
}

/// QP numbers 0 and 1 are reserved, and 2^24 - 1 stands for all members of a group.
const FIRST_NUMBER: u32 = 0x11;
const LAST_NUMBER: u32 = super::limits::BITS_24;

/// All objects of the fabric, by number. A number is used again as late as possible, as kernels do
/// it: a stale one finds nothing until 2^24 others were taken.
#[derive(Default)]
pub(super) struct State {
    /// The one that was taken last.
    pub(super) numbers: u32,
    pub(super) devices: BTreeMap<u32, Gids>,
    pub(super) pds: BTreeMap<u32, Pd>,
    pub(super) tds: BTreeMap<u32, Td>,
    pub(super) joints: BTreeMap<u32, Joint>,
    /// The queues and queue pairs that one thread uses.
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) mrs: BTreeMap<u32, Mr>,
    pub(super) dms: BTreeMap<u32, Dm>,
    pub(super) windows: BTreeMap<u32, Window>,
    /// The numbers of windows that were deallocated, where they are given to others.
    pub(super) free_windows: Vec<u32>,
    pub(super) ahs: BTreeMap<u32, Ah>,
    /// The queue pairs that are attached to each group.
    pub(super) groups: BTreeSet<(Gid, u32)>,
    pub(super) channels: BTreeMap<u32, Channel>,
    pub(super) cqs: BTreeMap<u32, Cq>,
    pub(super) srqs: BTreeMap<u32, Srq>,
    pub(super) xrcds: BTreeMap<u32, Xrcd>,
    pub(super) qps: BTreeMap<u32, Qp>,
    /// By device.
    pub(super) asyncs: BTreeMap<u32, AsyncEvents>,
    /// The QPs that the engine has to look at.
    pub(super) active: BTreeSet<u32>,
    pub(super) faults: Faults,
    pub(super) habits: Habits,
    /// The order of what keeps none.
    pub(super) shuffle: Shuffle,
    pub(super) world: World,
    /// The broken devices.
    pub(super) broken: BTreeSet<u32>,
    /// Datagrams with a wrong Q_Key, by the device that dropped them (R5.5).
    pub(super) qkey_violations: BTreeMap<u32, u16>,
    devices_opened: u32,
    /// Where devices are that took the place of another.
    places: BTreeMap<u32, u32>,
    /// The number of completions so far.
    pub(super) completions: u64,
    /// The time by the clock, once a test has stopped it.
    pub(super) clock: Option<Duration>,
    #[cfg(feature = "cm")]
    pub(super) cm: super::cm::Cm,
}

impl State {
    /// A number for a new object. It has 24 bits, since it serves as QP number and in memory keys.
    pub(super) fn number(&mut self) -> Verb<u32> {
        for _ in FIRST_NUMBER..LAST_NUMBER {
            let next = self.numbers + 1;
            self.numbers =
                if (FIRST_NUMBER..LAST_NUMBER).contains(&next) { next } else { FIRST_NUMBER };
            if !self.is_taken(self.numbers) {
                return Ok(self.numbers);
            }
        }
        Err(libc::ENOMEM)
    }

    /// Whether an object has the number.
    fn is_taken(&self, number: u32) -> bool {
        #[cfg(feature = "cm")]
        if self.cm.has(number) {
            return true;
        }
        self.pds.contains_key(&number)
            || self.tds.contains_key(&number)
            || self.joints.contains_key(&number)
            || self.members.contains_key(&number)
            || self.mrs.contains_key(&number)
            || self.dms.contains_key(&number)
            || self.windows.contains_key(&number)
            || self.ahs.contains_key(&number)
            || self.channels.contains_key(&number)
            || self.cqs.contains_key(&number)
            || self.srqs.contains_key(&number)
            || self.xrcds.contains_key(&number)
            || self.qps.contains_key(&number)
    }

    /// A new device, with the name and the addresses of another one or of its own.
    pub(super) fn open_device_at(&mut self, place: Option<u32>) -> u32 {
        let mut number = self.devices_opened;
        while self.devices.contains_key(&number) {
            number = number.wrapping_add(1);
        }
        self.devices_opened = number.wrapping_add(1);
        if let Some(place) = place {
            self.places.insert(number, place);
        }
        let place = self.place_of(number);
        self.devices.insert(number, Gids::of_device(place, self.world.link));
        number
    }

    /// The number by which a device is named and addressed: a replaced device leaves it behind.
    pub(super) fn place_of(&self, device: u32) -> u32 {
        self.places.get(&device).copied().unwrap_or(device)
    }

    /// Unlike libibverbs, which closes a context with objects and leaves them dangling, this
    /// refuses.
    pub(super) fn close_device(&mut self, device: u32) -> Verb {
        self.destroy_fault(None)?;
        let used = self.pds.values().any(|pd| pd.device == device)
            || self.tds.values().any(|td| td.device == device)
            || self.xrcds.values().any(|xrcd| xrcd.device == device)
            || self.dms.values().any(|dm| dm.device == device)
            || self.cqs.values().any(|cq| cq.device == device)
            || self.channels.values().any(|channel| channel.device == device);
        if used {
            return Err(libc::EBUSY);
        }
        self.places.remove(&device);
        self.asyncs.remove(&device);
        self.devices.remove(&device).map(drop).ok_or(libc::EINVAL)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers begin anew behind the last one, and pass over those that objects have.
    #[test]
    fn numbers_are_used_again() {
        let mut state = State::default();
        let first: Vec<u32> = (0..3).map(|_| state.number().unwrap()).collect();
        assert_eq!(first, [0x11, 0x12, 0x13]);
        state.pds.insert(0x12, Pd { device: 0 });
        state.pds.insert(LAST_NUMBER - 2, Pd { device: 0 });
        assert_eq!(state.number(), Ok(0x14), "not at once");
        state.numbers = LAST_NUMBER - 4;
        let next: Vec<u32> = (0..4).map(|_| state.number().unwrap()).collect();
        assert_eq!(next, [LAST_NUMBER - 3, LAST_NUMBER - 1, 0x11, 0x13]);
        state.pds.remove(&0x12);
        state.numbers = LAST_NUMBER - 1;
        assert_eq!([state.number(), state.number()], [Ok(0x11), Ok(0x12)]);
    }
}
