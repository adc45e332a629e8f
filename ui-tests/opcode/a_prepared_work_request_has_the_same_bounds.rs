// Proves R1.1, ibv_post_send(3): what may not be posted may not be posted prepared.
// Enforced by `PostOn<T>`, `Takes<D>`, `OneBuffer` and `Data<E>`.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn on_another_transport(qp: &mut QueuePair<Uc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    let mut read = wr::RdmaRead::new(wr::Placeholder, at).prepare();
    qp.post_prepared(&mut read, buf).unwrap();
}

fn in_another_state(qp: &mut QueuePair<Rc, Rtr>, buf: Buf) {
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, buf).unwrap();
}

profile! { Any { entry: AnyBuf } }

fn into_shared_memory(qp: &mut QueuePair<Rc, Rts, Any>, buf: SharedBuf, at: RemoteSpan<ToRead>) {
    let mut read = wr::RdmaRead::new(wr::Placeholder, at).prepare();
    qp.post_prepared(&mut read, buf).unwrap();
}

fn several(qp: &mut QueuePair<Rc, Rts, Any>, bufs: [Buf; 1]) {
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, bufs).unwrap();
}

profile! { AnyRing { entry: AnyBuf, signaling: Selective } }

fn into_shared_memory_unsignaled(
    qp: &mut QueuePair<Rc, Rts, AnyRing>,
    buf: SharedBuf,
    read: &mut wr::Prepared<wr::RdmaRead, wr::Placeholder>,
) {
    let _ = qp.post_prepared_unsignaled(read, buf);
}

fn several_unsignaled(qp: &mut QueuePair<Rc, Rts, AnyRing>, bufs: [Buf; 1]) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), bufs);
}

fn main() {}
