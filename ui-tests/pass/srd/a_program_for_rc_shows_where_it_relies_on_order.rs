// R27.1, efadv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::prelude::*;

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type Qp = QueuePair<Srd, Rts, Spread>;

// Each has a completion.
fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, Spread>(cq, cq, depth);
}

// The WRITE announces itself.
fn published(qp: &mut Qp, to: wr::Destination, data: Buf, at: RemoteSlice<RemoteWrite>) {
    let data = wr::RdmaWriteWithImm::new(data, at.write(), 7).to(to);
    post_send!(qp, [data, wr::Send::inline(b"and more").to(to)]).unwrap();
}

// The peer hears once the READ has completed.
fn read_and_released(
    qp: &mut Qp,
    cq: &mut CompletionQueue,
    to: wr::Destination,
    into: Buf,
    from: RemoteSlice<RemoteRead>,
) {
    qp.post_send(wr::RdmaRead::new(into, from.read()).to(to)).unwrap();
    while qp.sends_outstanding() != 0 {
        cq.poll().unwrap().for_each(drop);
    }
    qp.post_send(wr::Send::inline(b"released").to(to)).unwrap();
}

// All before is done when all have completed.
fn stopped(qp: Qp, cq: &mut CompletionQueue) {
    while qp.sends_outstanding() != 0 {
        cq.poll().unwrap().for_each(drop);
    }
}
