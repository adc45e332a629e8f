//! However a queue pair ends, its buffers are back once its completion queues were polled empty.

use proverbs::memory::Owned;
use proverbs::prelude::*;
use proverbs::qp::AnyQueuePair;
use proverbs::rules::CanFail;
use proverbs::state::State;
use proverbs::transport::Transport;

use crate::comes_home::{Asked, RingServer, Server};
use crate::support::*;

/// How a queue pair ends.
#[derive(Clone, Copy, Debug)]
pub enum Way {
    Drop,
    Destroy,
    DestroyAny,
    Reset,
    DrainAndDestroy,
    DrainAndReset,
}

pub const WAYS: [Way; 6] = [
    Way::Drop,
    Way::Destroy,
    Way::DestroyAny,
    Way::Reset,
    Way::DrainAndDestroy,
    Way::DrainAndReset,
];

/// Ends a queue pair with these completion queues. A reset leaves it in RESET.
pub fn end<T, S, P>(
    way: Way,
    qp: QueuePair<T, S, P>,
    cqs: &mut [&mut CompletionQueue<P::Entry>],
) -> Option<QueuePair<T, Reset, P>>
where
    T: Transport,
    S: State + CanFail,
    P: Profile<Entry: Owned>,
{
    let drained = |qp: QueuePair<T, S, P>, cqs: &mut [&mut CompletionQueue<P::Entry>]| {
        let mut qp = qp.to_error().unwrap();
        cqs.iter_mut().for_each(|cq| qp.drain(cq, |_| ()).unwrap());
        qp
    };
    match way {
        Way::Drop => drop(qp),
        Way::Destroy => qp.destroy().unwrap(),
        Way::DestroyAny => AnyQueuePair::from(qp).destroy().unwrap(),
        Way::Reset => return Some(qp.reset().unwrap()),
        Way::DrainAndDestroy => drained(qp, cqs).destroy().unwrap(),
        Way::DrainAndReset => return Some(drained(qp, cqs).reset().unwrap()),
    }
    None
}

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// Uses some receives and leaves others, and sends without a receive at the peer.
fn with_receives_of_its_own<P>()
where
    P: Profile<Entry = Buf, Receive = OwnRq, Threads = AnyThread>,
    Rc: Bring<P>,
    QueuePair<Rc, Rts, P>: Exchange,
{
    for way in WAYS {
        let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc, P>::new();
        for _ in 0..3 {
            a.receive(poisoned(&pool));
        }
        b.say();
        until(&dev, "the message", || cb.poll().unwrap().count() != 0);
        for _ in 0..2 {
            a.send(filled(&pool, b"nobody listens"));
        }
        let reset = end(way, a, &mut [&mut ca]);
        poll_empty(&mut ca);
        assert_eq!(pool.available(), 40, "{way:?}");
        drop((reset, b));
    }
}

/// The messages of the tests, with either kind of signaling.
trait Exchange {
    /// Sends a message without a buffer.
    fn say(&mut self);
    fn send(&mut self, buf: Buf);
    fn receive(&mut self, buf: Buf);
}

macro_rules! exchanges {
    ($($profile:ty),*) => {$(
        impl Exchange for QueuePair<Rc, Rts, $profile> {
            fn say(&mut self) {
                self.post_send(wr::Send::inline(b"arrives")).unwrap();
            }

            fn send(&mut self, buf: Buf) {
                self.post_send(wr::Send::new(buf)).unwrap();
            }

            fn receive(&mut self, buf: Buf) {
                self.post_recv(wr::Recv::new(buf)).unwrap();
            }
        }
    )*};
}

exchanges!(DefaultProfile, Ring);

/// Beside many buffers that the program holds, a search for those of ended queue pairs may wait. A
/// take and a count of the free buffers find them.
#[test]
fn no_buffer_stays_behind_beside_many_that_are_held() {
    fails_on!(Iwarp, "R24.5");
    const HELD: usize = 300;
    const LIVES: usize = if cfg!(miri) { 2 } else { 20 };
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq(16).unwrap();
    let pool = pd.create_pool(HELD + 8, 64).unwrap();
    let held: Vec<_> = (0..HELD).map(|_| pool.take().unwrap()).collect();
    for way in WAYS {
        for life in 0..LIVES {
            let depth = Depth { send: 2, recv: 3 };
            let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
            let number = qp.qp_num();
            let mut qp = Rc::up(qp, &dev, number, &Wish::new());
            for _ in 0..3 {
                qp.post_recv(wr::Recv::new(pool.take().expect("a take searches"))).unwrap();
            }
            let reset = end(way, qp, &mut [&mut cq]);
            poll_empty(&mut cq);
            if life % 3 == 0 {
                assert_eq!(pool.available(), 8, "{way:?}");
            }
            drop(reset);
        }
    }
    drop(held);
    assert_eq!(pool.available(), HELD + 8);
    pool.destroy().unwrap();
}

#[test]
fn a_queue_pair_of_rc_leaves_no_buffer_behind() {
    fails_on!(Iwarp, "R24.6");
    with_receives_of_its_own::<DefaultProfile>();
}

#[test]
fn a_queue_pair_with_a_ring_leaves_no_buffer_behind() {
    fails_on!(NoRings);
    with_receives_of_its_own::<Ring>();
}

#[test]
fn a_queue_pair_of_ud_leaves_no_buffer_behind() {
    fails_on!(Iwarp, "R24.2");
    for way in WAYS {
        let Pair { mut a, mut b, mut ca, mut cb, pool, dev, pd, .. } = Pair::<Ud>::new();
        let to_a = b.way_to(&dev, &pd, a.qp_num());
        let to_b = a.way_to(&dev, &pd, b.qp_num());
        for _ in 0..3 {
            a.post_recv(wr::Recv::new(poisoned(&pool))).unwrap();
        }
        b.post_send(wr::Send::new(filled(&pool, b"arrives")).to(to_a)).unwrap();
        poll(&dev, &mut cb, 1);
        a.post_send(wr::Send::new(filled(&pool, b"nobody listens")).to(to_b)).unwrap();
        let reset = end(way, a, &mut [&mut ca]);
        poll_empty(&mut ca);
        assert_eq!(pool.available(), 40, "{way:?}");
        drop((reset, b));
    }
}

/// Three receives of a shared queue were used, and the device may remove their completions.
fn with_a_shared_receive_queue<P>(send: impl Fn(&mut QueuePair<Rc, Rts, P>, Buf))
where
    P: Profile<Entry = Buf, Receive = SharedRq, Threads = AnyThread>,
    Rc: Bring<P>,
{
    for way in WAYS {
        let asked = Asked::<P>::new();
        let Asked { feed, pool, mut sends, mut receives, srq, client, mut server, .. } = asked;
        send(&mut server, filled(&pool, b"nobody listens"));
        let reset = match way {
            // It would lose receives, so it is refused.
            Way::Reset => {
                let refused = server.reset().unwrap_err();
                assert_eq!(refused.error.errno(), Some(libc::EBUSY), "{refused}");
                end(Way::Destroy, refused.into_object(), &mut [])
            }
            _ => end(way, server, &mut [&mut sends, &mut receives]),
        };
        // (The queue pair is destroyed when the first completion queue was found empty.)
        poll_empty(&mut receives);
        poll_empty(&mut sends);
        let counts = (pool.available(), feed.available(), srq.recvs_outstanding());
        assert_eq!(counts, (2, 3, 2), "{way:?}");
        assert_eq!(sends.unbooked() + if reset.is_some() { 5 } else { 0 }, sends.capacity());
        drop((reset, client));
        srq.destroy().unwrap();
        poll_empty(&mut receives);
        assert_eq!(feed.available(), 5, "{way:?}");
    }
}

#[test]
fn a_queue_pair_with_a_shared_receive_queue_leaves_no_buffer_behind() {
    fails_on!(Iwarp, "R24.6");
    with_a_shared_receive_queue::<Server>(|qp, buf| qp.post_send(wr::Send::new(buf)).unwrap());
}

#[test]
fn a_ring_with_a_shared_receive_queue_leaves_no_buffer_behind() {
    fails_on!(NoRings);
    with_a_shared_receive_queue::<RingServer>(|qp, buf| {
        qp.post_send(wr::Send::new(buf)).unwrap();
    });
}

/// Its completion queues, or the shared receive queue, are dropped after the queue pair, without a
/// poll.
#[test]
fn buffers_return_without_a_poll_when_the_other_objects_end() {
    for way in [Way::Drop, Way::Destroy, Way::DestroyAny] {
        for srq_first in [false, true] {
            let Asked { feed, pool, sends, receives, srq, client, mut server, .. } =
                Asked::<Server>::new();
            server.post_send(wr::Send::new(filled(&pool, b"nobody listens"))).unwrap();
            drop(client);
            end(way, server, &mut []);
            if srq_first {
                drop(srq);
                drop((receives, sends));
            } else {
                receives.destroy().unwrap();
                assert_eq!((feed.available(), srq.recvs_outstanding()), (3, 2), "{way:?}");
                sends.destroy().unwrap();
                srq.destroy().unwrap();
            }
            assert_eq!((pool.available(), feed.available()), (2, 5), "{way:?}");
        }
    }
}
