//! The one lock.

// No model: the whole device is behind one lock. The other locks guard a set and the
// list of open devices, each for one access.

use std::cell::Cell;
#[cfg(feature = "cm")]
use std::collections::BTreeMap;
use std::collections::BTreeSet;
#[cfg(feature = "cm")]
use std::sync::{Arc, Weak};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::state::State;
use crate::words::contract::broken;
#[cfg(feature = "cm")]
use proverbs_sys::handle;

thread_local! {
    static AT_WORK: Cell<u32> = const { Cell::new(0) };
}

/// Whether this thread is inside a loopback device. A test that counts allocations leaves out those
/// made inside, since a real device makes none of them.
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

/// While it exists, this thread is inside a device.
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
pub(crate) struct Shared {
    state: Mutex<State>,
    calls: Mutex<Calls>,
    /// The open devices by number, for the ids of rdma_cm.
    #[cfg(feature = "cm")]
    open: Mutex<BTreeMap<u32, Weak<handle::Context>>>,
}

impl Shared {
    pub(crate) fn new(state: State) -> Shared {
        Shared { state: Mutex::new(state), ..Shared::default() }
    }

    /// Every verb leaves the state consistent, so the state behind a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(feature = "cm")]
    pub(crate) fn remember(&self, number: u32, context: &Arc<handle::Context>) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, context| context.strong_count() != 0);
        open.insert(number, Arc::downgrade(context));
    }

    /// The context of a device. Do not drop it while the state is locked, since that may close the
    /// device.
    #[cfg(feature = "cm")]
    pub(crate) fn context(&self, device: u32) -> Option<Arc<handle::Context>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.get(&device)?.upgrade()
    }

    /// Runs a post. The devices do not work before it returns.
    pub(crate) fn post<R>(&self, post: impl FnOnce(&mut State) -> R) -> R {
        let _at_work = AtWork::begin();
        let mut state = self.lock();
        let result = post(&mut state);
        state.ring();
        result
    }

    /// Runs any other verb. The devices first work until nothing more can happen, then the verb
    /// runs. Other threads are woken only while timers run, so that pollers do not wake each other.
    pub(crate) fn verb<R>(&self, verb: impl FnOnce(&mut State) -> R) -> R {
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

/// Verbs of the data path that only one caller at a time may use. The crate's types ensure this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Poll,
    Send,
    Receive,
    ReceiveShared,
}

/// The calls in progress, with the numbers of their objects.
#[derive(Default)]
pub(crate) struct Calls(BTreeSet<(Call, u32)>);

/// A call in progress.
pub(crate) struct Begun<'a> {
    shared: &'a Shared,
    call: (Call, u32),
}

impl Shared {
    /// Records a call until it ends. Another of the same kind on the same object must not begin
    /// before that.
    pub(crate) fn begin(&self, call: Call, number: u32) -> Option<Begun<'_>> {
        if !cfg!(debug_assertions) {
            return None;
        }
        let call = (call, number);
        if !self.calls().0.insert(call) {
            broken("two calls on one object overlap");
        }
        Some(Begun { shared: self, call })
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.shared.calls().0.remove(&self.call);
    }
}
