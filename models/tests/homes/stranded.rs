//! What queues left behind goes home once, whoever finds it.

use std::ptr;
use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use crate::counters::books::{Books, Counter, Quiet, RECEIVE};
use crate::memory::buf::{Buf, Pool, Posted};
use crate::memory::stranded::reclaim_everything;
use crate::pools::{Context, model, pool};

/// A queue that is attached to one completion queue, and two of its receives.
struct World {
    pool: Pool<Context>,
    books: Arc<Books>,
    posted: [Posted; 2],
    gone: Arc<AtomicU32>,
}

fn world() -> World {
    let (pool, gone) = pool(2);
    // (Without counts, so that the headers alone tell what is stranded.)
    let books = Books::shared(1, 1).unwrap();
    books.attached();
    let posted = [(); 2].map(|()| pool.take().unwrap().give(counter(&books)));
    World { pool, books, posted, gone }
}

/// What the headers of its receives show.
fn counter(books: &Books) -> *const Counter {
    // SAFETY: the books are alive.
    unsafe { Books::counter(books, RECEIVE) }
}

/// What of this queue alone is stranded, though others may still have a part in its end. One is, of
/// a queue with counts.
pub fn quiet(books: Arc<Books>) -> Quiet {
    books.end([1, 0]);
    let mut quiet = Quiet::default();
    quiet.add(books);
    quiet
}

/// One of those who have a part in the queue's end says that nothing can complete any more.
fn end_one(books: Arc<Books>) {
    let mut quiet = Quiet::default();
    quiet.end_one(&books);
    let _ = reclaim_everything(&quiet);
}

/// A completion is taken apart.
fn complete(posted: Posted) -> Buf<Context> {
    let buf = Buf::<Context>::take_back(posted);
    buf.context().touch();
    buf
}

/// One comes out of a completion and is dropped, the other is stranded. The pool's own handle goes,
/// too.
#[test]
fn each_buffer_goes_home_once() {
    loom::model(|| {
        let World { pool, books, posted, gone } = world();
        let poller = {
            let books = books.clone();
            thread::spawn(move || {
                drop(complete(posted[0]));
                end_one(books);
            })
        };
        drop(pool);
        end_one(books);
        poller.join().unwrap();
        assert_eq!(gone.load(Relaxed), 2, "the pool went, with its last buffer");
    });
}

/// Another thread asks for what is stranded at any time, as `Pool::reclaim` may on another
/// completion queue.
#[test]
fn who_asks_takes_nothing_twice() {
    loom::model(|| {
        let World { pool, books, posted, .. } = world();
        let asks = {
            let books = books.clone();
            thread::spawn(move || {
                if books.is_quiet() {
                    let _ = reclaim_everything(&quiet(books));
                }
            })
        };
        let poller = {
            let books = books.clone();
            thread::spawn(move || {
                drop(complete(posted[0]));
                end_one(books);
            })
        };
        end_one(books);
        poller.join().unwrap();
        asks.join().unwrap();
        assert_eq!(pool.available(), 2);
    });
}

/// Another thread takes the buffer that is at home, while what is stranded is entered before it.
#[test]
fn what_goes_home_meanwhile_takes_nothing_along() {
    model(4, || {
        let World { pool, books, posted, .. } = world();
        drop(complete(posted[0]));
        let takes = {
            let pool = pool.clone();
            thread::spawn(move || pool.take())
        };
        end_one(books.clone());
        end_one(books);
        let taken = takes.join().unwrap();
        assert_eq!(pool.available() + taken.iter().count(), 2);
    });
}

/// One that came out of a completion is posted to another queue at once: nobody takes it for one
/// that is stranded.
#[test]
fn a_buffer_that_is_posted_again_is_not_stranded() {
    loom::model(|| {
        let World { pool, books, posted, .. } = world();
        let other = Books::shared(1, 1).unwrap();
        let poller = {
            let (books, other) = (books.clone(), other.clone());
            thread::spawn(move || {
                let again = complete(posted[0]).give(counter(&other));
                end_one(books);
                again
            })
        };
        end_one(books);
        let again = poller.join().unwrap();
        assert_eq!(pool.available(), 1);
        // SAFETY: it is with the other queue, and so alive.
        assert_eq!(unsafe { again.0.as_ref() }.posted_to(), counter(&other));
        assert_eq!(reclaim_everything(&quiet(other)).lent, 0);
        assert_eq!(pool.available(), 2);
    });
}

/// The other way round: who gives back his part before he takes his completion apart has his buffer
/// sent home by another as well.
#[test]
#[should_panic]
fn who_gives_back_his_part_too_early() {
    loom::model(|| {
        let World { pool, books, posted, .. } = world();
        let poller = {
            let books = books.clone();
            thread::spawn(move || {
                end_one(books);
                // SAFETY: (None: it may be another's by now. It is looked at and not dropped.)
                complete(posted[0]).give(ptr::null());
            })
        };
        end_one(books);
        poller.join().unwrap();
        drop(pool);
    });
}
