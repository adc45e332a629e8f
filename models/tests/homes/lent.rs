//! A boxed handle is freed once, and nobody looks at it then.

use std::any::Any;
use std::ptr;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use crate::counters::books::{Books, SEND};
use crate::memory::buf::Posted;
use crate::memory::lent::{Lent, lend};
use crate::memory::stranded::reclaim_everything;
use crate::stranded::quiet;

/// What handles keep alive; it tells when it goes.
struct Home(Arc<AtomicU32>);

impl Drop for Home {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// Two handles to one home.
fn handles() -> ([Lent; 2], Arc<AtomicU32>) {
    let gone = Arc::new(AtomicU32::new(0));
    let home: Arc<dyn Any + Send + Sync> = Arc::new(Home(gone.clone()));
    let one = lend(home, ptr::null_mut(), 8, 1, 1);
    let mut both = [one.clone(), one];
    // They are looked at by their addresses, which loom wants in the same order each time.
    both.sort_by_key(|handle| ptr::from_ref(handle.header()).addr());
    (both, gone)
}

/// Posts it: as a word.
fn give(handle: Lent, books: &Books) -> Posted {
    let header = ptr::NonNull::from(std::mem::ManuallyDrop::new(handle).header());
    // SAFETY: the books are alive.
    let counter = unsafe { Books::counter(books, SEND) };
    // SAFETY: the handle is ours.
    unsafe { header.as_ref() }.give(counter);
    Posted(header)
}

/// One is dropped while another thread looks for the other, which is stranded.
#[test]
fn a_handle_that_goes_is_not_looked_at() {
    loom::model(|| {
        let ([one, two], gone) = handles();
        let books = Books::new(1).unwrap();
        give(one, &books);
        let other = thread::spawn(move || drop(two));
        assert_eq!(reclaim_everything(&quiet(books)).lent, 1);
        other.join().unwrap();
        assert_eq!(gone.load(Relaxed), 1);
    });
}

/// Two threads look for the same queue.
#[test]
fn a_stranded_handle_is_found_once() {
    loom::model(|| {
        let (handles, gone) = handles();
        let books = Books::new(1).unwrap();
        for handle in handles {
            give(handle, &books);
        }
        let other = {
            let books = books.clone();
            thread::spawn(move || reclaim_everything(&quiet(books)).lent)
        };
        let mine = reclaim_everything(&quiet(books)).lent;
        assert_eq!(mine + other.join().unwrap(), 2);
        assert_eq!(gone.load(Relaxed), 1);
    });
}
