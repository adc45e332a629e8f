// R26.2, ibv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::device::{Can, XrcDomain};
use proverbs::prelude::*;
use proverbs::qp::Max;

profile! { Initiating { receive: NoRq } }
profile! { OnSrq { receive: SharedRq } }

fn posted(srq: &mut SharedReceiveQueue<Xrc>, buf: Buf) {
    srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
}

fn created(pd: &ProtectionDomain, can: &Can<Xrc>, cq: &CompletionQueue) {
    let _ = pd.create_xrc_initiator::<Initiating>(can, cq, 8);
}

fn as_others(pd: &ProtectionDomain, cq: &CompletionQueue) {
    let _ = pd.create_qp::<Rc, DefaultProfile>(cq, cq, Depth { send: 8, recv: 8 });
}

fn on_a_queue(pd: &ProtectionDomain, cq: &CompletionQueue, srq: &SharedReceiveQueue<Rc>) {
    let _ = pd.create_qp_on_srq::<Rc, OnSrq, Max<1>>(cq, cq, srq, 8);
}

fn a_queue(pd: &ProtectionDomain, pool: &Pool, domain: &XrcDomain, cq: &CompletionQueue) {
    let _: SharedReceiveQueue<Xrc> = pd.create_xrc_srq(pool, domain, cq).unwrap();
}
