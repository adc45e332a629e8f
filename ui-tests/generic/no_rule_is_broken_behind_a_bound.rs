// Proves R5.1, ibv_post_send(3): who calls generic code hears which rule its queue pair breaks.
// Enforced by `SendOn`, whose bounds are the rules.
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn send_any<T: Transport, P: Profile<Entry = Buf>>(
    qp: &mut QueuePair<T, Rts, P>,
    buf: Buf,
) -> Result<(), PostError<Buf>>
where
    wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, P>,
{
    qp.post_send(wr::Send::new(buf))
}

fn caller(ud: &mut QueuePair<Ud, Rts>, buf: Buf) {
    send_any(ud, buf).unwrap();
}

fn main() {}
