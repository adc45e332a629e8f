// R7.1, R23.3, R23.6, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::cm::{FullMember, Join};
use proverbs::prelude::*;
use proverbs::qp::{OnSrq, QpCreateFlags, WithFlags};

fn shared(own: Depth, srq: &SharedReceiveQueue<Rc>) -> OnSrq<'_, Rc, Buf, AnyThread> {
    Depth::on_srq(own.send, srq)
}

fn with_flags(depth: Depth, flags: QpCreateFlags) -> WithFlags<Depth> {
    depth.flags(flags)
}

fn joined(address: std::net::SocketAddr) -> Join<FullMember> {
    Join::new(address)
}
