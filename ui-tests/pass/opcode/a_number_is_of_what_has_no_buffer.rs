// R17.7, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn numbered() {
    let _ = wr::Send::new(wr::Empty).with_id(7);
}
