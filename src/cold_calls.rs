//! Counts the cold functions that a thread enters, for unit tests. Code that takes the cold path
//! without need returns the same results at a higher cost, which only a count detects.

/// Records in a unit test that this thread entered a cold function.
#[inline(always)]
pub(crate) fn note() {
    #[cfg(all(test, feature = "loopback"))]
    count::ENTERED.set(count::ENTERED.get() + 1);
}

#[cfg(all(test, feature = "loopback"))]
pub(crate) mod count {
    use std::cell::Cell;

    thread_local! { pub(super) static ENTERED: Cell<u32> = const { Cell::new(0) } }

    /// The number of cold functions that `hot` entered.
    pub(crate) fn entered(hot: impl FnOnce()) -> u32 {
        ENTERED.set(0);
        hot();
        ENTERED.get()
    }
}
