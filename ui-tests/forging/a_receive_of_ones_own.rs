// Proves R3.1, ibv_post_recv(3): how many elements a receive has is not for programs to say, of a profile of their own either.
// Enforced by `RecvOn`, which no other crate can implement.
use proverbs::prelude::*;

profile! { Mine {} }

impl wr::RecvOn<Mine> for wr::Recv<[Buf; 2]> {
    const SEAL: () = ();
}

fn main() {}
