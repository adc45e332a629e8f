//! XRC from creation to destruction: a domain, a target, an initiator, and two shared receive
//! queues.

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::xrc::{XrcDomain, XrcRtr, XrcRts, XrcTarget, XrcTargetRtr, XrcdFile};
use proverbs::prelude::*;
use proverbs::qp::Max;

use crate::world::World;

profile! { Initiating { receive: NoRq } }
profile! { InSessions { receive: NoRq, posting: ExtendedPosting, signaling: Selective } }

impl World {
    /// Connects an initiator and a target, sends to both queues, and drops the objects in one of
    /// the orders.
    pub fn xrc(&self, context: &Context, pd: &ProtectionDomain, order: u8) {
        let can = context.abilities().ok().and_then(|abilities| abilities.can::<Xrc>());
        let Some(can) = can else { return };
        let Some(domain) = self.made(context.open_xrcd(&can, XrcdFile::Private)) else { return };
        let Some(cq) = self.made(context.create_cq::<Buf>(32)) else { return };
        let Ok(pools) = pd.create_pool(4, 64).and_then(|one| Ok([one, pd.create_pool(2, 64)?]))
        else {
            return;
        };
        let mut queues = Vec::new();
        for pool in &pools {
            let made = domain.create_srq::<Buf, Max<1>, (), _>(pd, pool, &cq);
            let Some(mut srq) = self.made(made) else { return };
            let _ = pool.take().map(|buf| srq.post_srq_recv(wr::Recv::new(buf)));
            queues.push(srq);
        }
        let Some(target) = self.made(domain.create_target()) else { return };
        if order % 2 == 0 {
            let made = pd.create_xrc_initiator::<Initiating>(&can, &cq, 4);
            let Some(initiator) = self.made(made) else { return };
            end(order, connected(context, initiator, target, &queues, &pools), domain, cq, queues);
        } else {
            let made = pd.create_xrc_initiator::<InSessions>(&can, &cq, 4);
            let Some(initiator) = self.made(made) else { return };
            end(order, connected(context, initiator, target, &queues, &pools), domain, cq, queues);
        }
    }
}

type Ends<P> = Option<(QueuePair<Xrc, Rts, P>, XrcTarget<Rtr>)>;

fn connected<P>(
    context: &Context,
    initiator: QueuePair<Xrc, Reset, P>,
    target: XrcTarget<Reset>,
    queues: &[SharedReceiveQueue<Xrc>],
    pools: &[Pool],
) -> Ends<P>
where
    P: Profile<Entry = Buf, Initiator = Reads, MaxSendSge = Max<1>, MaxInline = Max<64>>,
    wr::Send: proverbs::rules::CreatedFor<P::Posting>,
    wr::Plain: proverbs::rules::SignaledOn<P::Signaling>,
{
    let port = context.query_port(1).ok()?;
    let address = match port.link_layer {
        proverbs::device::LinkLayer::InfiniBand => AddressVector::infiniband(1, port.lid),
        _ => AddressVector::roce(1, context.query_gid(1, 1).ok()?, 1),
    };
    let psn = Psn::try_from(0).ok()?;
    let (from, to) =
        (Qpn::try_from(initiator.qp_num()).ok()?, Qpn::try_from(target.qp_num()).ok()?);
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let target = target.modify(init).ok()?.modify(XrcTargetRtr::new(address, from, psn)).ok()?;
    let initiator = initiator.modify(init).ok()?.modify(XrcRtr::new(address, to, psn)).ok()?;
    let mut initiator = initiator.modify(XrcRts::new(psn, ReadDepth::ONE)).ok()?;
    for (srq, pool) in queues.iter().zip(pools) {
        let _ = initiator.post_send(wr::Send::inline(b"hello").to_srq(srq.number()));
        let _ = pool.take().map(|buf| initiator.post_send(wr::Send::new(buf).to_srq(srq.number())));
    }
    Some((initiator, target))
}

fn end<P: Profile<Entry = Buf>>(
    order: u8,
    ends: Ends<P>,
    domain: XrcDomain,
    mut cq: CompletionQueue,
    queues: Vec<SharedReceiveQueue<Xrc>>,
) {
    match order {
        0 | 1 => drop((domain, cq, queues, ends)),
        2 | 3 => {
            while matches!(cq.poll_one(), Ok(Some(_))) {}
            drop((ends, queues, domain, cq));
        }
        4 => {
            let domain = domain.close();
            assert!(domain.is_err() || queues.is_empty());
            drop((queues, ends, cq, domain));
        }
        _ => {
            let ended = ends.map(|(initiator, target)| (initiator.to_error(), target.reset()));
            drop((cq, ended, domain, queues));
        }
    }
}
