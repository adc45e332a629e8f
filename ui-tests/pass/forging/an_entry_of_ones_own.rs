// R11.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

struct Mine(#[allow(dead_code)] [u8; 64]);

profile! { WithMine { entry: Buf<Mine> } }

fn post(qp: &mut QueuePair<Rc, Rts, WithMine>, buf: Buf<Mine>) -> Result<(), PostError<Buf<Mine>>> {
    qp.post_send(wr::Send::new(buf))
}
