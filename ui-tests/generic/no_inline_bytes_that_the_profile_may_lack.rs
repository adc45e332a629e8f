// Proves R2.7, ibv_post_send(3): code that is generic over the profile says how many bytes it posts inline.
// Enforced by `InlineBytes`: one error names the bound to write.
use proverbs::prelude::*;

fn ping<P>(qp: &mut QueuePair<Rc, Rts, P>) -> Result<(), PostError<Buf>>
where
    P: Profile<Entry = Buf>,
{
    qp.post_send(wr::Send::inline(b"ping"))
}

fn main() {}
