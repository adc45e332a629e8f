// R26.2, ibv_create_qp_ex(3): the legal twin of the test of this name.
use proverbs::device::Can;
use proverbs::ext::xrc::XrcDomain;
use proverbs::prelude::*;

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
    let _ = pd.create_qp::<Rc, OnSrq>(cq, cq, Depth::on_srq(8, srq));
}

fn a_queue(pd: &ProtectionDomain, pool: &Pool, domain: &XrcDomain, cq: &CompletionQueue) {
    let _: SharedReceiveQueue<Xrc> = domain.create_srq(pd, pool, cq).unwrap();
}
