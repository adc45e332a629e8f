// Proves R3.1, ibv_post_send(3): what fits the slots of a list is not for programs to say.
// Enforced by `PushOn`, which no other crate can implement, for a profile of its own either.
use proverbs::prelude::*;

profile! { Mine { max_send_sge: 2, entry: BufList } }

enum Mark {}

impl proverbs::rules::PushOn<Rc, Mine, 1>
    for wr::WorkRequest<wr::Send, [Buf; 2], wr::Connected, Mark>
{
    const SEAL: () = ();
}

fn main() {}
