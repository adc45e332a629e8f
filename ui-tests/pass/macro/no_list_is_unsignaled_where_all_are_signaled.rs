// R2.4, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Asked { signaling: Selective } }

fn list(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    let _unsettled = post_send!(qp, [wr::Send::new(buf)], unsignaled).unwrap();
}

fn method(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    let _unsettled = qp.post_send_unsignaled(wr::Send::new(buf)).unwrap();
}

fn run_time_list(list: SendList<'_, Rc, Asked, 1>) {
    let _unsettled = list.post_unsignaled().unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, Asked>, buf: Buf) {
    let _unsettled =
        qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}
