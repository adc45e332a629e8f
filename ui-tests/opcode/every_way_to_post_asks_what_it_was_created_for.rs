// R25.2, ibv_wr_post(3): every way to post asks what the queue pair was created for.
// Enforced by `CreatedFor`.

use proverbs::memory::{Raw, RemoteFlush, ToWrite};
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Mine { posting: ExtendedPosting } }
profile! { Quiet { posting: ExtendedPosting, signaling: Selective } }
profile! { Bare { posting: ExtendedPosting<Srd>, entry: Raw } }
profile! { Spread { posting: ExtendedPosting<Srd>, signaling: Selective } }

type Data<'a> = wr::Sge<'a, 1>;
type To = wr::Destination;
type At = RemoteSpan<ToWrite>;

fn pushed(list: &mut SendList<'_, Rc, Mine, 1>, what: RemoteFlush) {
    list.push(wr::Flush::new(what)).unwrap();
}

fn extended(list: &mut SendList<'_, Rc, Mine, 1>, all: Vec<RemoteFlush>) {
    list.extend(all.into_iter().map(wr::Flush::new)).unwrap();
}

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Quiet>, what: RemoteFlush) {
    let _ = qp.post_send_unsignaled(wr::Flush::new(what));
}

fn prepared(
    qp: &mut QueuePair<Srd, Rts, Spread>,
    write: &mut wr::Prepared<wr::RdmaWrite, wr::Later, wr::Datagram>,
    data: Buf,
) {
    let _ = qp.post_prepared_unsignaled(write, data);
}

unsafe fn unchecked(qp: &mut QueuePair<Srd, Rts, Bare>, sge: Data<'_>, to: To, at: At) {
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_unchecked(wr::RdmaWrite::new(sge, at).to(to)) };
}

unsafe fn unchecked_list(
    qp: &mut QueuePair<Srd, Rts, Bare>,
    slots: &mut SendSlots<2>,
    sge: Data<'_>,
    to: To,
    at: At,
) {
    let write = |_| wr::RdmaWrite::new(sge, at).to(to);
    // SAFETY: never called.
    let _ = unsafe { qp.post_send_list_unchecked(slots, 2, write) };
}

fn main() {}
