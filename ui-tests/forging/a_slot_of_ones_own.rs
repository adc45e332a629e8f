// Proves R3.1, ibv_post_send(3): what fits the slots of a list is not for programs to say.
// Enforced by `Allows`, which no other crate can implement, for a profile of its own either.
use proverbs::prelude::*;
use proverbs::post::SendList;
use proverbs::rules::{Allows, call};

profile! { Mine { max_send_sge: 2, entry: BufList } }

enum Mark {}

impl Allows<call::Push<wr::WorkRequest<wr::Send, [Buf; 2], wr::Connected, Mark>>>
    for SendList<'_, Rc, Mine, 1>
{
    const SEAL: () = ();
}

fn main() {}
