// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send<P: Profile<Entry = Buf>>(qp: &mut QueuePair<Rc, Rts, P>, buf: Buf) -> bool
where
    wr::WorkRequest<wr::Send, Buf>: wr::SendOn<Rc, P>,
{
    qp.post_send(wr::Send::new(buf)).is_ok()
}
