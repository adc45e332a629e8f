//! Counts the cold functions that a thread enters, in unit tests. Code that takes the cold path
//! for no reason gives the same results at a higher cost: only a count shows it.

use std::cell::Cell;

thread_local! { static ENTERED: Cell<u32> = const { Cell::new(0) } }

/// Notes that this thread entered a cold function.
pub(crate) fn note() {
    ENTERED.set(ENTERED.get() + 1);
}

/// How many `hot` entered.
pub(crate) fn entered(hot: impl FnOnce()) -> u32 {
    ENTERED.set(0);
    hot();
    ENTERED.get()
}
