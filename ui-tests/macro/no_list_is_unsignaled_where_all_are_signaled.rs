// Proves R2.4, ibv_post_send(3): no list is unsignaled where all are signaled.
// Enforced by `Signaling = Selective`.
use proverbs::post::SendList;
use proverbs::prelude::*;

fn list(qp: &mut QueuePair<Rc, Rts, DefaultProfile>, buf: Buf) {
    let _unsettled = post_send!(qp, [wr::Send::new(buf)], unsignaled).unwrap();
}

fn method(qp: &mut QueuePair<Rc, Rts, DefaultProfile>, buf: Buf) {
    let _unsettled = qp.post_send_unsignaled(wr::Send::new(buf)).unwrap();
}

fn run_time_list(list: SendList<'_, Rc, DefaultProfile, 1>) {
    let _unsettled = list.post_unsignaled().unwrap();
}

fn prepared(qp: &mut QueuePair<Rc, Rts, DefaultProfile>, buf: Buf) {
    let _unsettled =
        qp.post_prepared_unsignaled(&mut wr::Send::new(wr::Placeholder).prepare(), buf).unwrap();
}

fn main() {}
