// Proves R2.6, ibv_post_send(3): which flags a work request has is for its methods to say.
// Enforced by `SendOn`: only the crate can make the flags that it adds.
use proverbs::prelude::*;

const INLINE: u32 = 8;

fn read_inline<W: wr::SendOn<Rc, DefaultProfile>>(wr: W) -> W {
    wr.flagged(INLINE)
}

fn main() {}
