// Proves R4.6, ibv_post_send(3): which work requests a queue pair accepts is not for programs to say.
// Enforced by `SendOn`, which no other crate can implement, for a profile of its own either.
use proverbs::prelude::*;

profile! { Mine { initiator: NoReads } }

enum Mark {}

impl wr::SendOn<Rc, Mine> for wr::WorkRequest<wr::RdmaRead, Buf, wr::Connected, Mark> {
    const SEAL: () = ();
}

fn main() {}
