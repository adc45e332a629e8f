// Proves R3.1, ibv_post_srq_recv(3): how many elements a shared receive queue takes is not for programs to say.
// Enforced by `SrqRecvOn`, whose parameters are sealed.
use proverbs::prelude::*;
use proverbs::qp::Max;

impl wr::SrqRecvOn<BufList, Max<1>> for wr::Recv<[Buf; 2]> {
    const SEAL: () = ();
}

fn main() {}
