// R2.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::InlineBytes;

fn ping<P>(qp: &mut QueuePair<Rc, Rts, P>) -> Result<(), PostError<Buf>>
where
    P: Profile<Entry = Buf, MaxInline: InlineBytes<4>>,
{
    qp.post_send(wr::Send::inline(b"ping"))
}
