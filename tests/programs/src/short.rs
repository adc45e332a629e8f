//! Programs as they are under Miri, and natively if they are to be the same.

use std::sync::atomic::{AtomicBool, Ordering};

static ASKED: AtomicBool = AtomicBool::new(cfg!(miri));

/// Programs run natively as under Miri: on the same devices, as often, and without what Miri cannot
/// follow.
pub fn ask_for_short() {
    ASKED.store(true, Ordering::Relaxed);
}

/// Whether programs are those of Miri.
pub(crate) fn is_short() -> bool {
    ASKED.load(Ordering::Relaxed)
}
