//! The post paths as separate functions, which `cargo xtask test machine-code` inspects.

#![allow(unsafe_code)] // unmangled names

use std::hint::black_box;

use proverbs::memory::ToRead;
use proverbs::prelude::*;

profile! { pub Chosen { signaling: Selective } }

type Posted = Result<(), PostError<Buf>>;

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_one(qp: &mut QueuePair<Rc, Rts>, buf: Buf, at: RemoteSpan) -> Posted {
    qp.post_send(wr::RdmaWrite::new(buf, at))
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_chain(
    qp: &mut QueuePair<Rc, Rts>,
    bufs: [Buf; 4],
    at: RemoteSpan,
    from: RemoteSpan<ToRead>,
) -> Posted {
    let [a, b, c, d] = bufs;
    let [a, b] = [wr::RdmaWrite::new(a, at), wr::RdmaWrite::new(b, at)];
    post_send!(qp, [a, b, wr::Send::new(c), wr::RdmaRead::new(d, from)])
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_chain_selective(
    qp: &mut QueuePair<Rc, Rts, Chosen>,
    bufs: [Buf; 4],
    at: RemoteSpan,
    from: RemoteSpan<ToRead>,
) -> Posted {
    let [a, b, c, d] = bufs;
    let [a, b] = [wr::RdmaWrite::new(a, at), wr::RdmaWrite::new(b, at)];
    post_send!(qp, [a, b, wr::Send::new(c), wr::RdmaRead::new(d, from)])
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_inline(qp: &mut QueuePair<Rc, Rts>, bytes: &[u8; 16]) -> Posted {
    qp.post_send(wr::Send::inline(bytes))
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_datagram(qp: &mut QueuePair<Ud, Rts>, buf: Buf, to: wr::Destination) -> Posted {
    qp.post_send(wr::Send::new(buf).to(to))
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_receives(qp: &mut QueuePair<Rc, Rts>, bufs: [Buf; 4]) -> Posted {
    let [a, b, c, d] = bufs;
    post_recv!(qp, [wr::Recv::new(a), wr::Recv::new(b), wr::Recv::new(c), wr::Recv::new(d)])
}

#[unsafe(no_mangle)]
#[inline(never)]
pub fn post_shared_receive(srq: &mut SharedReceiveQueue<Rc>, buf: Buf) -> Posted {
    srq.post_srq_recv(wr::Recv::new(buf))
}

fn main() {
    black_box(post_one as *const ());
    black_box(post_chain as *const ());
    black_box(post_chain_selective as *const ());
    black_box(post_inline as *const ());
    black_box(post_datagram as *const ());
    black_box(post_receives as *const ());
    black_box(post_shared_receive as *const ());
}
