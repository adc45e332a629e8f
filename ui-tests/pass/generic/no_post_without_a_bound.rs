// R1.1, R5.1, R3.1, ibv_post_send(3): the legal twin of the test of this name.
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

fn callers(rc: &mut QueuePair<Rc, Rts>, uc: &mut QueuePair<Uc, Rts>, buf: [Buf; 2]) {
    let [one, two] = buf;
    send_any(rc, one).unwrap();
    send_any(uc, two).unwrap();
}
