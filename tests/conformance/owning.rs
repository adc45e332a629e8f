//! Contexts that own queue pairs, so that queue pairs end while something else ends.

use std::any::Any;

use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::support::*;

/// A buffer's context, which owns an object.
struct Owns(Option<Box<dyn Any + Send>>);

profile! { Ring { entry: Buf<Owns>, signaling: Selective, initiator: NoReads } }
profile! { Plain { entry: Buf<Owns> } }
profile! { Served { entry: Buf<Owns>, receive: SharedRq } }

type Cq = CompletionQueue<Buf<Owns>>;

const DEPTH: Depth = Depth { send: 2, recv: 2 };

/// Posts a receive on `qp` that is never used. Its buffer owns an object, and is the last of its
/// pool.
fn strands<O: Send + 'static>(
    pd: &ProtectionDomain,
    qp: &mut QueuePair<Rc, Init, Plain>,
    owned: O,
) {
    let pool = pd.pool(64).contexts(|_| Owns(None)).create(1).unwrap();
    let mut buf = pool.take().unwrap();
    buf.context_mut().0 = Some(Box::new(owned));
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn init(qp: QueuePair<Rc, Reset, Plain>) -> QueuePair<Rc, Init, Plain> {
    let attr = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    qp.modify(attr).unwrap()
}

/// A queue pair ends during the end of its completion queue. Completions in its other completion
/// queue stay until they are polled.
#[test]
fn a_queue_pair_that_ends_with_its_completion_queue() {
    fails_on!(NoRings);
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let (mut ends, mut stays): (Cq, Cq) =
        (dev.ctx.create_cq(30).unwrap(), dev.ctx.create_cq(30).unwrap());
    let pool = pd.pool(64).contexts(|_| Owns(None)).create(2).unwrap();
    // The last to end: one of its sends is done, and two receives are flushed and not polled.
    let last = pd.create_qp::<Rc, Ring>(&ends, &stays, DEPTH).unwrap();
    let attr = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let mut last = last.modify(attr).unwrap();
    while let Some(buf) = pool.take() {
        last.post_recv(wr::Recv::new(buf)).unwrap();
    }
    let mut last = last.to_error().unwrap();
    last.post_send(wr::Send::new(wr::Empty)).unwrap();
    until(&dev, "the flushed send", || match ends.poll_one().unwrap() {
        Some(completion) => last.complete(completion).is_ok(),
        None => false,
    });
    assert_eq!(last.sends_outstanding(), 0);

    let mut next = init(pd.create_qp::<Rc, Plain>(&ends, &ends, DEPTH).unwrap());
    strands(&pd, &mut next, last);
    let mut first = init(pd.create_qp::<Rc, Plain>(&ends, &ends, DEPTH).unwrap());
    strands(&pd, &mut first, next);
    drop(first);
    drop(ends); // ends `first`, whose buffer drops `next`, whose buffer drops `last`
    assert_eq!(pool.available(), 0, "with `stays`");
    let flushed = poll_empty(&mut stays);
    assert!(dev.takes_completions_along().is_none_or(|along| flushed == if along { 0 } else { 2 }));
    assert_eq!(poll_empty(&mut stays), 0);
    assert_eq!(pool.available(), 2);
    stays.destroy().unwrap();
}

/// Sends a last message to a queue pair that ends with it.
struct LastWord {
    from: QueuePair<Rc, Rts>,
    sent: CompletionQueue,
    _to: QueuePair<Rc, Rts, Served>,
}

impl Drop for LastWord {
    fn drop(&mut self) {
        self.from.post_send(wr::Send::inline(b"late")).unwrap();
        while self.sent.poll_one().unwrap().is_none() {}
    }
}

/// A message arrives while its completion queue ends. The receive's buffer returns, unless the
/// device removes the completion with the queue pair.
#[test]
fn a_message_that_arrives_while_its_completion_queue_ends() {
    fails_on!(Iwarp, "R24.5");
    let (dev, wish) = (Device::open(), Wish::new());
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.pool(64).contexts(|_| Owns(None)).create(2).unwrap();
    let (ends, sends): (Cq, Cq) = (dev.ctx.create_cq(30).unwrap(), dev.ctx.create_cq(30).unwrap());
    let sent = dev.ctx.create_cq(30).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf<Owns>, Max<1>, Owns>(&pool).unwrap();
    while let Some(buf) = pool.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let from = pd.create_qp::<Rc, DefaultProfile>(&sent, &sent, DEPTH).unwrap();
    let to = pd.create_qp::<Rc, Served>(&sends, &ends, Depth::on_srq(2, &srq)).unwrap();
    let (from, to) = Rc::connect((from, &pd), (to, &pd), &dev, &wish);
    let mut first = init(pd.create_qp::<Rc, Plain>(&ends, &ends, DEPTH).unwrap());
    strands(&pd, &mut first, LastWord { from, sent, _to: to });
    drop(first);
    assert_eq!((srq.recvs_outstanding(), pool.available()), (2, 0));
    drop(ends);
    if let Some(along) = dev.takes_completions_along() {
        let home = if along { 0 } else { 1 };
        assert_eq!((srq.recvs_outstanding(), pool.available()), (2 - home, home));
    }
    drop(sends);
    srq.destroy().unwrap();
    assert_eq!(pool.available(), 2);
}
