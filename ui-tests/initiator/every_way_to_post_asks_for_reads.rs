// Proves R4.6, ibv_post_send(3): every way to post asks for reads.
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

fn extended(list: &mut SendList<'_, Rc, Quiet, 1>, bufs: Vec<Buf>, at: RemoteSpan<ToRead>) {
    list.extend(bufs.into_iter().map(move |buf| wr::RdmaRead::new(buf, at))).unwrap();
}

fn prepared(
    qp: &mut QueuePair<Rc, Rts, Quiet>,
    read: &mut wr::Prepared<wr::RdmaRead, wr::Placeholder>,
    buf: Buf,
) {
    qp.post_prepared(read, buf).unwrap();
}

fn prepared_unsignaled(
    qp: &mut QueuePair<Rc, Rts, Quiet>,
    read: &mut wr::Prepared<wr::RdmaRead, wr::Placeholder>,
    buf: Buf,
) {
    let _ = qp.post_prepared_unsignaled(read, buf);
}

fn main() {}
