//! Queue pairs that are parked: destroyed once, whoever comes first.
//!
//! Holds L13: a queue pair that is destroyed while it is being parked releases its room and its
//! buffers.

use std::sync::Arc;

use loom::sync::atomic::{AtomicU32, Ordering::Relaxed};
use loom::thread;

use super::{CAPACITY, LEFT, inbox};
use crate::completion::attached::Share;
use crate::completion::inbox::Inbox;
use crate::completion::parked::{Over, Parked, Rest};
use crate::completion::poll;
use crate::counters::books;
use crate::counters::books::{Books, Quiet};
use crate::srq::ends::Ends;

/// A shared receive queue, as `SrqCore` is one.
struct Core {
    ends: Ends,
    books: Arc<Books>,
    /// How many queues were sent home.
    home: Arc<AtomicU32>,
}

impl Drop for Core {
    fn drop(&mut self) {
        let mut quiet = Quiet::default();
        self.ends.end(&self.books, &mut quiet);
        self.home.fetch_add(quiet.len() as u32, Relaxed);
    }
}

/// What is parked, as `qp/park.rs` has it.
struct Dropped {
    books: Arc<Books>,
    send: Arc<Inbox>,
    receive: Arc<Inbox>,
    srq: Arc<Core>,
    destroyed: Arc<AtomicU32>,
}

impl Rest for Dropped {
    fn destroy(self: Box<Self>, over: &mut Over) {
        self.destroyed.fetch_add(1, Relaxed);
        self.send.end(&self.books, LEFT, &mut over.quiet);
        if !Arc::ptr_eq(&self.send, &self.receive) {
            self.receive.end(&self.books, LEFT, &mut over.quiet);
        }
        over.quiet.end_one(&self.books);
        over.leftovers.push(Box::new((self.srq, self.send, self.receive)));
    }
}

struct World {
    send: Arc<Inbox>,
    receive: Arc<Inbox>,
    srq: Arc<Core>,
    queue_pair: Dropped,
    destroyed: Arc<AtomicU32>,
    home: Arc<AtomicU32>,
}

impl World {
    /// A queue pair on a shared receive queue, with one completion queue or two.
    fn new(queues: usize) -> World {
        let receive = inbox();
        let send = if queues == 1 { receive.clone() } else { inbox() };
        let [destroyed, home] = [0, 0].map(|none| Arc::new(AtomicU32::new(none)));
        let core = Core { ends: Ends::default(), books: books(), home: home.clone() };
        let (srq, books) = (Arc::new(core), books());
        if queues == 1 {
            send.attach("", &books, [1, 0], Share::Both).unwrap();
        } else {
            send.attach("", &books, [1, 0], Share::Sends).unwrap();
            receive.attach("", &books, [0, 0], Share::Receives).unwrap();
        }
        receive.attach("", &srq.books, [0, 2], Share::Shared).unwrap();
        srq.ends.completes_into(&receive);
        let queue_pair = Dropped {
            books,
            send: send.clone(),
            receive: receive.clone(),
            srq: srq.clone(),
            destroyed: destroyed.clone(),
        };
        World { send, receive, srq, queue_pair, destroyed, home }
    }
}

/// A queue pair is dropped while receives are outstanding. Gives how many queues it sent home.
fn park(queue_pair: Dropped) -> usize {
    let (books, srq) = (queue_pair.books.clone(), queue_pair.srq.clone());
    let (send, receive) = (queue_pair.send.clone(), queue_pair.receive.clone());
    let parked = Arc::new(Parked::new(Box::new(queue_pair)));
    let mut over = Over::default();
    srq.ends.park(&parked, &books, &send, &receive, &mut over);
    over.send_home()
}

/// The shared receive queue is dropped.
fn drop_srq(srq: Arc<Core>) -> usize {
    let mut over = Over::default();
    srq.ends.close(&mut over);
    over.send_home()
}

/// Ends `world` with what is still there, and sees that all came home, and once. `came` is what did
/// already.
fn all_came_home(mut came: usize, receive: &Inbox, send: &Inbox, home: &AtomicU32) {
    came += home.load(Relaxed) as usize;
    assert_eq!(came, 2, "the queue pair, and the shared receive queue");
    assert_eq!([receive.unbooked(), send.unbooked()], [CAPACITY; 2]);
}

#[test]
fn a_queue_pair_and_its_shared_receive_queue() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, home } = World::new(1);
        let queue_pair = thread::spawn(move || park(queue_pair));
        let mut came = drop_srq(srq);
        came += queue_pair.join().unwrap();
        assert_eq!(destroyed.load(Relaxed), 1);
        came += poll::poll(&receive);
        all_came_home(came, &receive, &send, &home);
        assert!(poll::asks_the_device(&receive), "nothing is left to do");
    });
}

#[test]
fn a_queue_pair_and_the_poller() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, home } = World::new(1);
        let queue_pair = thread::spawn(move || park(queue_pair));
        let mut came = poll::look(&receive);
        came += queue_pair.join().unwrap();
        came += poll::poll(&receive);
        assert_eq!(destroyed.load(Relaxed), 1);
        came += drop_srq(srq);
        came += poll::poll(&receive);
        all_came_home(came, &receive, &send, &home);
    });
}

/// Its two completion queues are dropped meanwhile, each on its thread.
#[test]
fn a_queue_pair_and_its_completion_queues() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, home } = World::new(2);
        let queue_pair = thread::spawn(move || park(queue_pair));
        let other = {
            let send = send.clone();
            thread::spawn(move || poll::drop_poller(&send))
        };
        let mut came = poll::drop_poller(&receive);
        came += queue_pair.join().unwrap() + other.join().unwrap();
        assert_eq!(destroyed.load(Relaxed), 1);
        came += drop_srq(srq);
        all_came_home(came, &receive, &send, &home);
    });
}

/// It is parked already. The shared receive queue, the poller and the other completion queue meet.
#[test]
fn who_ends_a_parked_queue_pair() {
    loom::model(|| {
        let World { send, receive, srq, queue_pair, destroyed, home } = World::new(2);
        let mut came = park(queue_pair);
        let others = [
            thread::spawn(move || drop_srq(srq)),
            thread::spawn({
                let send = send.clone();
                move || poll::drop_poller(&send)
            }),
        ];
        came += poll::drop_poller(&receive);
        came += others.map(|other| other.join().unwrap()).iter().sum::<usize>();
        assert_eq!(destroyed.load(Relaxed), 1);
        all_came_home(came, &receive, &send, &home);
    });
}
