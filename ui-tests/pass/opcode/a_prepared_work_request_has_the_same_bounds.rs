// R1.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::ToRead;
use proverbs::prelude::*;

fn on_this_transport(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan<ToRead>) {
    let mut read = wr::RdmaRead::new(wr::Placeholder, at).prepare();
    qp.post_prepared(&mut read, buf).unwrap();
}

fn in_this_state(qp: &mut QueuePair<Rc, Rts>, buf: Buf) {
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, buf).unwrap();
}

profile! { Any { entry: AnyBuf } }

fn from_shared_memory(qp: &mut QueuePair<Rc, Rts, Any>, buf: SharedBuf) {
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, buf).unwrap();
}

fn one(qp: &mut QueuePair<Rc, Rts, Any>, buf: Buf) {
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, buf).unwrap();
}

profile! { AnyRing { entry: AnyBuf, signaling: Selective } }

fn from_shared_memory_unsignaled(qp: &mut QueuePair<Rc, Rts, AnyRing>, buf: SharedBuf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf);
}

fn one_unsignaled(qp: &mut QueuePair<Rc, Rts, AnyRing>, buf: Buf) {
    let _ = qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf);
}
