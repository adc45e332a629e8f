//! A queue pair stored in a field and moved between states in place.

use std::cell::Cell;

use proverbs::prelude::*;
use proverbs::qp::{AnyQueuePair, Drain, Drained, QpQkey, RcReturn};
use proverbs::state::QpState;

use crate::support::*;

/// A connection in one struct, with a queue pair in any state.
struct Link {
    qp: AnyQueuePair<Rc>,
    cq: CompletionQueue,
}

impl Link {
    fn connect(&mut self, dev: &Device, peer: u32) {
        let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
        self.qp.modify(init).unwrap();
        let (qpn, psn) = (Qpn::new(peer).unwrap(), Psn::new(5).unwrap());
        self.qp.modify(RcRtr::new(dev.vector(), qpn, psn)).unwrap();
        self.qp.modify(RcRts::new(psn, ReadDepth::ONE)).unwrap();
    }

    fn post(&mut self, buf: Buf) {
        let qp = self.qp.as_state::<Rts>().expect("it is connected");
        qp.post_recv(wr::Recv::new(buf)).unwrap();
    }

    /// Moves to RESET, and returns the number of buffers that came back.
    fn hang_up(&mut self) -> usize {
        self.qp.to_error().unwrap();
        self.qp.to_error().unwrap(); // this fails if it is in RESET
        let AnyQueuePair::Err(qp) = &mut self.qp else { panic!("{:?}", self.qp) };
        let mut home = 0;
        qp.drain(&mut self.cq, |found| home += matches!(found, Drained::Entry(_)) as usize)
            .unwrap();
        self.qp.reset().unwrap();
        home
    }
}

#[test]
fn a_connection_in_a_struct_is_made_repeatedly() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(8, 64).unwrap();
    let link = || {
        let cq = dev.ctx.create_cq(20).unwrap();
        let qp = pd.create_qp::<Rc, _>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
        Link { qp: qp.into(), cq }
    };
    let (mut a, mut b) = (link(), link());
    for round in 0..3 {
        assert_eq!((a.qp.state(), b.qp.state()), (QpState::Reset, QpState::Reset));
        let numbers = (a.qp.qp_num(), b.qp.qp_num());
        a.connect(&dev, numbers.1);
        b.connect(&dev, numbers.0);
        assert_eq!(a.qp.query().unwrap().state, Some(QpState::Rts));
        b.post(poisoned(&pool));
        b.post(poisoned(&pool));
        let qp = a.qp.as_state::<Rts>().unwrap();
        qp.post_send(wr::Send::new(filled(&pool, &[round]))).unwrap();
        assert_eq!((a.qp.sends_outstanding(), b.qp.recvs_outstanding()), (1, 2));
        assert_eq!((b.qp.sends_outstanding(), a.qp.recvs_outstanding()), (0, 0));
        poll(&dev, &mut a.cq, 1);
        poll(&dev, &mut b.cq, 1);
        assert_eq!((a.hang_up(), b.hang_up()), (0, 1));
    }
    a.qp.destroy().unwrap();
    drop(b);
    assert_eq!(pool.available(), 8);
}

/// Disconnects cleanly when it is dropped, and records how many buffers came back.
struct HangsUp<'h> {
    link: Link,
    home: &'h Cell<usize>,
}

impl Drop for HangsUp<'_> {
    fn drop(&mut self) {
        self.home.set(self.link.hang_up());
        assert_eq!(self.link.qp.state(), QpState::Reset);
    }
}

/// `to_error`, a drain and `reset` of the field, in the `Drop` of the struct, including during a
/// panic.
#[test]
fn a_struct_hangs_up_when_it_is_dropped() {
    fails_on!(Iwarp, "R24.6");
    for panics in [false, true] {
        let p = Pair::<Rc>::new();
        let home = Cell::new(0);
        let ends = HangsUp { link: Link { qp: p.a.into(), cq: p.ca }, home: &home };
        let drops = std::panic::AssertUnwindSafe(|| {
            let mut ends = ends;
            for _ in 0..3 {
                ends.link.post(poisoned(&p.pool));
            }
            if panics {
                std::panic::resume_unwind(Box::new("with three receives posted"));
            }
        });
        assert_eq!(std::panic::catch_unwind(drops).is_err(), panics);
        assert_eq!((home.get(), p.pool.available()), (3, 40));
    }
}

profile! { Ring { signaling: Selective, initiator: NoReads } }

/// Resets its queue pair when it is dropped, in any state, to get its buffers back.
struct SendsHome<'h> {
    qp: AnyQueuePair<Rc, Ring>,
    pool: &'h Pool,
    home: &'h Cell<usize>,
}

impl Drop for SendsHome<'_> {
    fn drop(&mut self) {
        let before = self.pool.available();
        self.qp.reset().unwrap();
        self.home.set(self.pool.available() - before);
    }
}

/// Only `reset`, in a `Drop`: from RTS with unsignaled sends, and from RESET.
#[test]
fn a_struct_resets_its_queue_pair_when_it_is_dropped() {
    fails_on!(NoRings);
    let mut p = Pair::<Rc, Ring>::new();
    let home = Cell::new(0);
    for _ in 0..2 {
        p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
        let _ = p.a.post_send_unsignaled(wr::Send::new(filled(&p.pool, b"mine"))).unwrap();
    }
    poll(&p.dev, &mut p.cb, 2);
    drop(SendsHome { qp: p.a.into(), pool: &p.pool, home: &home });
    assert_eq!((home.get(), p.pool.available()), (2, 40));

    let qp = p.pd.create_qp::<Rc, Ring>(&p.ca, &p.ca, Depth { send: 4, recv: 4 }).unwrap();
    drop(SendsHome { qp: qp.into(), pool: &p.pool, home: &home });
    assert_eq!(home.get(), 0);
}

/// A transition from another state, or one that the device rejects, changes nothing.
#[test]
fn a_refused_transition_leaves_the_queue_pair_unchanged() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
    let qp = pd.create_qp::<Rc, _>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let mut qp: AnyQueuePair<Rc> = AnyQueuePair::from(qp);
    let number = qp.qp_num();
    let text = |result: Result<(), proverbs::Error>| result.unwrap_err().to_string();

    assert_eq!(
        text(qp.to_error()),
        "ibv_modify_qp: EINVAL: Invalid argument (RESET -> ERR is not a transition: move the queue pair to INIT first)"
    );
    let rts = RcRts::new(Psn::new(0).unwrap(), ReadDepth::ONE);
    assert_eq!(
        text(qp.modify(rts)),
        "ibv_modify_qp: EINVAL: Invalid argument (the transition starts in RTR, the queue pair is in RESET)"
    );
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let refused = qp.modify(ConnectedInit { port: 9, ..init });
    assert_eq!(
        text(refused),
        "ibv_modify_qp: EINVAL: Invalid argument (RESET -> INIT; port 9 does not exist: this device \
         has 1 port)"
    );
    assert!(matches!(qp, AnyQueuePair::Reset(_)));
    qp.modify(init).unwrap();
    assert_eq!((qp.state(), qp.qp_num()), (QpState::Init, number));

    // By value too, a queue pair only converts to its own state.
    assert!(qp.as_state::<Rts>().is_none());
    let qp = qp.into_state::<Rts>().unwrap_err();
    let typed: QueuePair<Rc, Init> = qp.into_state().unwrap();
    assert_eq!(typed.qp_num(), number);

    // Buffers in flight come back as well.
    let any = AnyQueuePair::from(typed);
    let cq = cq.destroy().unwrap_err().into_object();
    any.destroy().unwrap();
    cq.destroy().unwrap();
}

/// UD makes the same transitions, and enters SQE only if the device reports it.
#[test]
fn datagrams_in_place() {
    fails_on!(Iwarp, "R24.2");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let cq: CompletionQueue = dev.ctx.create_cq(20).unwrap();
    let qp = pd.create_qp::<Ud, _>(&cq, &cq, Depth { send: 4, recv: 4 }).unwrap();
    let mut qp: AnyQueuePair<Ud> = qp.into();
    let qkey: QpQkey = Qkey::new(QKEY).unwrap().into();
    qp.modify(UdInit { pkey_index: 0, port: 1, qkey }).unwrap();
    assert!(qp.to_sqe().unwrap_err().to_string().contains("the transition starts in RTS"));
    qp.modify(UdRtr::default()).unwrap();
    qp.modify(UdRts::new(Psn::new(1).unwrap())).unwrap();
    assert!(qp.to_sqe().unwrap_err().to_string().contains("the queue pair is in RTS"));
    assert_eq!((qp.state(), qp.query().unwrap().qkey), (QpState::Rts, QKEY));
    qp.reset().unwrap();
    assert!(format!("{qp:?}").contains("Reset"), "{qp:?}");
}

#[test]
fn a_send_queue_is_stopped_in_place() {
    fails_on!(Iwarp, "R24.5");
    let p = Pair::<Rc>::new();
    let mut qp = AnyQueuePair::from(p.a);
    qp.modify(Drain { notify: false }).unwrap();
    let mut deadline = p.dev.deadline("the send queue has drained");
    while let Err(error) = qp.to_sqd() {
        assert_eq!(error.errno(), Some(11), "{error}");
        assert!(qp.as_state::<Draining>().is_some());
        deadline.tick(&());
    }
    assert!(qp.as_state::<Sqd>().is_some());
    let error = qp.to_sqd().unwrap_err();
    assert_eq!(error.errno(), Some(22));
    qp.modify::<Sqd, _>(RcReturn::default()).unwrap();
    qp.modify(Drain { notify: false }).unwrap();
    qp.to_error().unwrap();
    qp.reset().unwrap();
    assert_eq!(qp.state(), QpState::Reset);
}
