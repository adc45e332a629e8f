//! A handle with its own header releases its memory once, and is not found by searches afterwards.

use std::ptr;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::give;
use super::orphaned::quiet;
use crate::counters::queue_counters::{CompletionCounter, QueueCounters, SEND};
use crate::memory::header::Handle;
use crate::memory::header_slab::HeaderSlab;
use crate::memory::orphaned::reclaim_everything;
use crate::memory::owning_handle::{HandleBytes, KeptAlive, OwningHandle, owning_handle};

/// The value that handles keep alive. It counts its drops.
struct Memory {
    gone: Arc<AtomicU32>,
    /// The headers of its handles.
    _slab: Arc<HeaderSlab>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.gone.fetch_add(1, Relaxed);
    }
}

/// Returns two handles to one value.
fn handles() -> ([OwningHandle; 2], Arc<AtomicU32>) {
    let gone = Arc::new(AtomicU32::new(0));
    let one = handle(&HeaderSlab::new(1), gone.clone());
    // They are searched in the order of their creation, which is the same each time.
    let two = one.clone();
    ([one, two], gone)
}

fn handle(slab: &Arc<HeaderSlab>, gone: Arc<AtomicU32>) -> OwningHandle {
    let memory = Memory { gone, _slab: slab.clone() };
    let bytes = HandleBytes { addr: ptr::null_mut(), len: 8, lkey: 1, type_tag: 0 };
    owning_handle(slab, || KeptAlive::of(memory), &bytes)
}

/// The counter in the headers of posted handles.
fn counter(counters: &QueueCounters) -> *const CompletionCounter {
    // SAFETY: the counters are alive.
    unsafe { QueueCounters::counter(counters, SEND) }
}

/// One handle is dropped while another thread searches for the other, which is orphaned.
#[test]
fn a_handle_that_goes_is_not_looked_at() {
    loom::model(|| {
        let ([one, two], gone) = handles();
        let counters = QueueCounters::new(1).unwrap();
        give(one, counter(&counters));
        let other = thread::spawn(move || drop(two));
        assert_eq!(reclaim_everything(quiet(counters)).handles, 1);
        other.join().unwrap();
        assert_eq!(gone.load(Relaxed), 1);
    });
}

/// One handle is dropped, and another handle reuses its header and is posted. At the same time
/// another thread searches for the first handle's queue, and finds no handle.
#[test]
fn a_header_that_is_used_again_is_not_taken() {
    loom::model(|| {
        let (gone, there) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (counters, other) = (QueueCounters::new(1).unwrap(), QueueCounters::new(1).unwrap());
        let slab = HeaderSlab::new(1);
        let posted = give(handle(&slab, gone.clone()), counter(&counters));
        // A completion returns it. SAFETY: it is alive, and this is the only handle.
        let back = unsafe { OwningHandle::from_header(posted.0.as_ptr()) };
        back.header().forget_queue();
        let search = thread::spawn(move || reclaim_everything(quiet(counters)).handles);
        drop(back);
        let again = give(handle(&slab, there.clone()), counter(&other));
        assert_eq!(again.0, posted.0, "it is the same header");
        assert_eq!(search.join().unwrap(), 0);
        assert_eq!(reclaim_everything(quiet(other)).handles, 1);
        assert_eq!((gone.load(Relaxed), there.load(Relaxed)), (1, 1));
    });
}

/// Two threads search for the same queue.
#[test]
fn a_orphaned_handle_is_found_once() {
    loom::model(|| {
        let (handles, gone) = handles();
        let counters = QueueCounters::new(1).unwrap();
        for handle in handles {
            give(handle, counter(&counters));
        }
        let other = {
            let counters = counters.clone();
            thread::spawn(move || reclaim_everything(quiet(counters)).handles)
        };
        let mine = reclaim_everything(quiet(counters)).handles;
        assert_eq!(mine + other.join().unwrap(), 2);
        assert_eq!(gone.load(Relaxed), 1);
    });
}
