// Proves R27.1, R27.2, R27.4, R27.5: a program for RC that relies on order, moved to SRD.
// Enforced by `TellsOfEach`, `FenceOn`, `MayFollow` and `Transition`.
use proverbs::{ext::extended_posting::ExtendedPosting, prelude::*};
use proverbs::qp::Drain;

profile! { Stream { signaling: Selective, posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }
profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)> } }

type Qp = QueuePair<Srd, Rts, Spread>;

// As before, but for the name of the transport, with one completion for many.
fn created(pd: &ProtectionDomain, cq: &CompletionQueue, depth: Depth) {
    let _ = pd.create_qp::<Srd, Stream>(cq, cq, depth);
}

// A SEND announces the data of the WRITE to the peer.
fn published(qp: &mut Qp, to: wr::Destination, data: Buf, at: RemoteSlice<RemoteWrite>) {
    let data = wr::RdmaWrite::new(data, at.write()).to(to);
    post_send!(qp, [data, wr::Send::inline(b"it is there").to(to)]).unwrap();
}

// The peer hears when the READ is done.
fn read_and_released(qp: &mut Qp, to: wr::Destination, into: Buf, from: RemoteSlice<RemoteRead>) {
    let read = wr::RdmaRead::new(into, from.read()).to(to);
    post_send!(qp, [read, wr::Send::inline(b"released").to(to).fence()]).unwrap();
}

// All before is done when the queue stands still.
fn stopped(qp: Qp) {
    let _ = qp.modify(Drain::default());
}

fn main() {}
