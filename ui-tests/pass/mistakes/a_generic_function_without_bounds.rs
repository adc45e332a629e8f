// The legal twin of the mistake of this name.
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn send<T: Transport>(qp: &mut QueuePair<T, Rts>, buf: Buf) -> Result<(), PostError<Buf>>
where
    wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, DefaultProfile>,
{
    qp.post_send(wr::Send::new(buf))
}
