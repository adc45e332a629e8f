// Proves R2.6, ibv_post_send(3): which flags a work request has is for its methods to say.
// Enforced by `SendOn`, whose method that adds flags is `unsafe`.
use proverbs::prelude::*;

const INLINE: u32 = 8;

fn read_inline<W: wr::SendOn<Rc, DefaultProfile>>(wr: W) -> W {
    wr.flagged(INLINE)
}

fn main() {}
