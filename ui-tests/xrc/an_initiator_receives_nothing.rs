// Proves R26.2, ibv_create_qp_ex(3): an initiator receives nothing.
// Enforced by `HasRecvQueue`, `UsesNoQueue` and `HasBothQueues`.
use proverbs::device::Can;
use proverbs::prelude::*;

profile! { Initiating { receive: NoRq } }
profile! { OnSrq { receive: SharedRq } }

fn posted(qp: &mut QueuePair<Xrc, Rts, Initiating>, buf: Buf) {
    qp.post_recv(wr::Recv::new(buf)).unwrap();
}

fn created(pd: &ProtectionDomain, can: &Can<Xrc>, cq: &CompletionQueue) {
    let _ = pd.create_xrc_initiator::<DefaultProfile>(can, cq, 8);
}

fn as_others(pd: &ProtectionDomain, cq: &CompletionQueue) {
    let _ = pd.create_qp::<Xrc, DefaultProfile>(cq, cq, Depth { send: 8, recv: 8 });
}

fn on_a_queue(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Xrc>) {
    let _ = pd.create_qp::<Xrc, OnSrq>(cq, cq, Depth::on_srq(8, srq));
}

fn main() {}
