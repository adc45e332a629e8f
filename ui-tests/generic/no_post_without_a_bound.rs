// Proves R1.1, R5.1, R3.1, ibv_post_send(3): code that is generic over the transport names what it posts.
// Enforced by `SendOn`: one bound is missing, and one error names it.
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn send_any<T: Transport, P: Profile<Entry = Buf>>(
    qp: &mut QueuePair<T, Rts, P>,
    buf: Buf,
) -> Result<(), PostError<Buf>> {
    qp.post_send(wr::Send::new(buf))
}

fn main() {}
