// Proves R7.1, R23.3, R23.6, ibv_create_qp(3): only the crate fills in a shared receive queue and flags.
// Enforced by private fields.
use std::marker::PhantomData;

use proverbs::cm::{FullMember, Join};
use proverbs::prelude::*;
use proverbs::qp::{OnSrq, QpCreateFlags, WithFlags};

// Of a shared receive queue for another transport.
fn of_another(other: OnSrq<'static, Ud, Buf, AnyThread>) -> OnSrq<'static, Rc, Buf, AnyThread> {
    let OnSrq { send, srq, .. } = other;
    OnSrq { send, srq, types: PhantomData }
}

fn with_flags(depth: Depth, flags: QpCreateFlags) -> WithFlags<Depth> {
    WithFlags { depth, flags }
}

fn joined(address: std::net::SocketAddr) -> Join<FullMember> {
    Join { address, flags: Some(2), member: PhantomData }
}

fn main() {}
