// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Words { max_inline: 16 } }

fn list(qp: &mut QueuePair<Rc, Rts, Words>) {
    let mut slots = SendSlots::<4, 1>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(wr::Send::inline(b"hello")).unwrap();
    list.post().unwrap();
}
