//! The calls by which a test controls and queries its fabric.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use crate::c_api::LOOPBACK;
use crate::shared::Shared;
use crate::state::State;
use crate::words::injected::Injected;
use crate::words::personality::Habits;
use crate::words::script::Script;
use crate::words::shuffle::Shuffle;
use crate::words::world::World;
use proverbs_sys::handle;
use proverbs_sys::terms::state::QpState as Phase;
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

    /// A fabric with this [`World`], or with devices of this [`Personality`](crate::Personality).
    pub fn with(world: impl Into<World>) -> Fabric {
        let world = world.into();
        let (habits, shuffle) = (Habits::of(world.personality), Shuffle::of(world.srd));
        let state = State { habits, shuffle, world, ..State::default() };
        Fabric(Arc::new(Shared::new(state)))
    }

    /// Opens a new device on the fabric: "loop0", "loop1" and so on, or a replacement for another
    /// device.
    ///
    /// The context lives until `LOOPBACK.close_device`.
    pub(crate) fn open(&self, place: Option<u32>) -> NonNull<ibv_context> {
        crate::c_api::open(&self.0, place)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Injects the faults of `script` from now on. `Script::default()` ends all faults that have
    /// not begun. Work requests that have begun, and messages in transit, keep their faults.
    pub fn inject(&self, script: Script) {
        self.0.post(|state| state.inject(script));
    }

    /// The number of injected faults since the fabric was made, by kind.
    pub fn injected(&self) -> Injected {
        self.0.post(|state| state.faults.injected)
    }

    /// Breaks a device of this fabric: it raises an event (`DeviceEvent::DeviceFatal`) and stops
    /// working. Posts are still accepted, but posted work never completes. Other verbs return EIO,
    /// except verbs that destroy objects. Returns false if the device does not belong to this
    /// fabric, or was broken before.
    pub fn break_device(&self, device: &handle::Context) -> bool {
        self.number_of(device).is_some_and(|number| self.0.post(|state| state.break_device(number)))
    }

    /// Raises an asynchronous event of the device or of its port. `event_type` is a number of
    /// `ibv_event_type` (18 is a change of the GID table), or an unknown number. Returns false if
    /// the device does not belong to this fabric, or if the event is about another kind of object.
    pub fn raise(&self, device: &handle::Context, event_type: u32) -> bool {
        let number = self.number_of(device);
        number.is_some_and(|number| self.0.post(|state| state.raise_device(number, event_type)))
    }

    /// Binds a type 2 memory window of the device to `slice`, a piece of a region of this fabric,
    /// like `ibv_bind_mw` (ibv_bind_mw(3)). The slice returned has its own key, which SEND_WITH_INV
    /// and LOCAL_INV invalidate; until one of them does, the region cannot be deregistered
    /// ([R6.11]).
    ///
    /// # Errors
    /// [`ErrorKind::Os`]: EINVAL if the slice does not belong to a region of this fabric.
    ///
    /// [R6.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r6-11
    /// [`ErrorKind::Os`]: https://docs.rs/proverbs/latest/proverbs/enum.ErrorKind.html#variant.Os
    pub fn open_window(&self, addr: u64, len: u64, rkey: u32) -> Result<u32, c_int> {
        self.0.post(|state| state.open_window(rkey, addr, len))
    }

    /// Invalidates the key of a window of [`open_window`](Self::open_window), as LOCAL_INV would.
    /// Returns whether it was open.
    pub fn close_window(&self, rkey: u32) -> bool {
        self.0.post(|state| state.close_window(rkey))
    }

    pub(crate) fn number_of(&self, device: &handle::Context) -> Option<u32> {
        crate::c_api::number_on(&self.0, device)
    }

    /// Moves the queue pair with this number to ERR, as a device may do by itself ([R8.15]), and
    /// flushes its posted work. Returns false if there is no such queue pair, or if it is in RESET.
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

proverbs_sys::impl_debug!(Fabric, |_| "Fabric {{ .. }}");

impl Fabric {
    /// Stops the clock of the fabric: from now on only [`advance`](Self::advance) moves it.
    ///
    /// While the clock runs, a send loses retries whenever the fabric is idle: with each poll that
    /// finds nothing, on any thread. A peer on another thread that is about to post its receive may
    /// then be too late. While the clock is stopped, polling never uses up retries, on however many
    /// threads, and a send succeeds as soon as its peer is ready.
    ///
    /// Stopping a stopped clock does nothing. Faults that count runs
    /// ([`Fault::Delay`](crate::Fault::Delay), [`Fault::FlushLate`](crate::Fault::FlushLate)) do
    /// not depend on the clock.
    pub fn stop_clock(&self) {
        self.shared().post(State::stop_clock);
    }

    /// [Stops](Self::stop_clock) the clock of the fabric and moves it by `time`. The devices work
    /// once at the current time, and again whenever a timer expires during `time`, in order.
    ///
    /// A send on RC fails and completes as
    ///
    /// - `RnrRetryExc` when its peer had no receive for the sender's `rnr_retry` times the peer's
    ///   `min_rnr_timer` ([R8.11]);
    /// - `RetryExc` when no answer came for `retry_cnt + 1` times its `timeout` ([R8.10], [R8.9]).
    ///
    /// Devices may wait longer. [`Personality::Worst`](crate::Personality::Worst) waits up to four
    /// times as long. Timestamps of completions ([`CompletionTs`]) move with the clock.
    ///
    /// [R8.10]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-10
    /// [R8.11]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-11
    /// [R8.9]: https://docs.rs/proverbs/latest/proverbs/guide/rules/index.html#r8-9
    /// [`CompletionTs`]:
    /// https://docs.rs/proverbs/latest/proverbs/ext/extended_polling/enum.CompletionTs.html
    pub fn advance(&self, time: Duration) {
        self.shared().post(|state| state.move_clock(time));
    }

    /// Lets the devices do all work that they can do now, and returns the time until the next send
    /// fails. `None` if no send waits, if all wait forever, or if the clock was not
    /// [stopped](Self::stop_clock).
    ///
    /// A test can use it to see that a send on another thread waits:
    pub fn next_timer(&self) -> Option<Duration> {
        self.shared().post(State::next_timer)
    }
}

impl Fabric {
    /// Opens a new device on the fabric ("loop0", "loop1" and so on).
    pub fn open_device(&self) -> Arc<handle::Context> {
        self.open_known(None)
    }

    /// Opens a device that rdma_cm ids find, perhaps in place of another.
    pub(crate) fn open_known(&self, place: Option<u32>) -> Arc<handle::Context> {
        let context = Arc::new(self.open_at(place));
        #[cfg(feature = "cm")]
        if let Some(number) = self.number_of(&context) {
            self.shared().remember(number, &context);
        }
        context
    }

    /// Opens a device that rdma_cm ids do not find.
    pub fn open_alone(&self) -> handle::Context {
        self.open_at(None)
    }

    #[allow(unsafe_code)] // takes ownership of the C object
    fn open_at(&self, place: Option<u32>) -> handle::Context {
        let context = self.open(place);
        // SAFETY: the context was just opened, and has no other owner.
        unsafe { handle::Context::new(context, &LOOPBACK, Default::default()) }
    }
}
