// Proves R17.7, ibv_post_send(3): a number comes back where no buffer does.
// Enforced by `NoBuffer`.
use proverbs::prelude::*;

fn numbered(buf: Buf) {
    let _ = wr::Send::new(buf).with_id(7);
}

fn main() {}
