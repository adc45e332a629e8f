//! Pairs on iWARP, which only rdma_cm connects: both ends on one channel, in one thread.

use std::cell::RefCell;
use std::net::SocketAddr;

use proverbs::bounded::ResponderDepth;
use proverbs::cm::*;
use proverbs::prelude::*;

use super::device::Device;
use super::long;
use super::pair::{Bring, Fresh, Wish};
use steps::{done, event_of, next_event};

#[path = "../../cm/steps.rs"]
mod steps;

/// A listening id of this device and an id that connects to it, on one channel.
pub fn ends(
    dev: &Device,
) -> (EventChannel, CmId<Tcp, Listening, OnChannel>, CmId<Tcp, RouteResolved, OnChannel>) {
    let (channel, ip) = match &dev.fabric {
        Some(fabric) => (EventChannel::on(fabric).unwrap(), fabric.ip_of(&dev.ctx).unwrap()),
        None => {
            let ip = std::env::var("PROVERBS_ADDRESS").expect(
                "the listener has the device's \
                address",
            );
            (EventChannel::new().unwrap(), ip.parse().unwrap())
        }
    };
    let listening = channel.create_id::<Tcp>().unwrap();
    let listening = listening.bind_addr(SocketAddr::new(ip, 0)).unwrap().listen(1).unwrap();
    let to = listening.local_addr().unwrap();
    let id = channel.create_id::<Tcp>().unwrap().resolve_addr(to, long()).unwrap();
    let event = event_of(&channel, id.key());
    let id = done(id.advance(&event)).resolve_route(long()).unwrap();
    let event = event_of(&channel, id.key());
    let id = done(id.advance(&event));
    (channel, listening, id)
}

thread_local! {
    /// A connection ends when its ids are dropped.
    static KEPT: RefCell<Vec<CmId<Tcp, Established, OnChannel>>> = const { RefCell::new(Vec::new()) };
}

/// Ends the connections of this thread, so that their ids do not keep a device open.
#[allow(dead_code)] // used by other suites than conformance
pub fn let_ids_go() {
    KEPT.with_borrow_mut(Vec::clear);
}

/// Connects two queue pairs in RESET. The ids live until the test's thread ends, or until
/// [`let_ids_go`].
#[allow(clippy::type_complexity)]
pub fn connect<P: Profile, Q: Profile>(
    dev: &Device,
    (a, pd_of_a): Fresh<'_, Rc, P>,
    (b, pd_of_b): Fresh<'_, Rc, Q>,
    wish: &Wish,
) -> (QueuePair<Rc, Rts, P>, QueuePair<Rc, Rts, Q>)
where
    Rc: Bring<P> + Bring<Q>,
{
    let (channel, listening, id) = ends(dev);
    let param = ConnParam::<P> {
        initiator_depth: <Rc as Bring<P>>::depth(),
        responder_resources: ResponderDepth::new(wish.responder_depth).unwrap(),
        rnr_retry_count: wish.rnr_retry,
        ..ConnParam::default()
    };
    let a = id.init_qp(pd_of_a, a).unwrap();
    let pending = id.connect(a, &param).unwrap();
    let request = listening.request(event_of(&channel, listening.key())).unwrap();
    let b = request.id.init_qp(pd_of_b, b).unwrap();
    let param = AcceptParam::<Q> {
        initiator_depth: <Rc as Bring<Q>>::depth(),
        responder_resources: ResponderDepth::new(wish.responder_depth).unwrap(),
        rnr_retry_count: wish.rnr_retry,
        ..AcceptParam::default()
    };
    let accepted = request.accept(b, &param).unwrap();
    // Each side gets its own event.
    let event = next_event(&channel);
    let (here, there) = if event.id() == accepted.id().key() {
        let here = done(accepted.advance(&event));
        let event = event_of(&channel, pending.id().key());
        (here, done(pending.advance(&event)))
    } else {
        let there = done(pending.advance(&event));
        let event = event_of(&channel, accepted.id().key());
        (done(accepted.advance(&event)), there)
    };
    KEPT.with_borrow_mut(|kept| kept.extend([here.id, there.id]));
    (there.qp, here.qp)
}
