// R4.6, ibv_post_send(3): every way to post asks for reads.
// Enforced by `IssuedBy<I>`.
use proverbs::memory::ToRead;
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Quiet { initiator: NoReads, signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Quiet>, buf: Buf, at: RemoteSpan<ToRead>) {
    let _ = qp.post_send_unsignaled(wr::RdmaRead::new(buf, at));
}

fn pushed(list: &mut SendList<'_, Rc, Quiet, 1>, buf: Buf, at: RemoteSpan<ToRead>) {
    list.push(wr::RdmaRead::new(buf, at)).unwrap();
}

fn main() {}
