//! Counts the cold functions that a thread enters, for unit tests. Code that takes the cold path
//! without need returns the same results at a higher cost, which only a count detects.

use std::cell::Cell;

thread_local! { static ENTERED: Cell<u32> = const { Cell::new(0) } }

/// Records that this thread entered a cold function.
pub(crate) fn note() {
    ENTERED.set(ENTERED.get() + 1);
}

/// The number of cold functions that `hot` entered.
pub(crate) fn entered(hot: impl FnOnce()) -> u32 {
    ENTERED.set(0);
    hot();
    ENTERED.get()
}
