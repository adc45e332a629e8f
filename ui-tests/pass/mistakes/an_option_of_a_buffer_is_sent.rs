// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn send(qp: &mut QueuePair<Rc, Rts>, pool: &Pool) -> Result<(), PostError<Buf>> {
    match pool.take() {
        Some(buf) => qp.post_send(wr::Send::new(buf)),
        None => Ok(()), // poll: a completion brings a buffer back
    }
}
