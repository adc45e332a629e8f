// Proves R3.1, ibv_post_send(3): inline data needs an element, so a slot must have one.
// Enforced by `Sges<1>` of `SendSlots::new`.
use proverbs::prelude::*;

profile! { Words { max_inline: 16 } }

fn list(qp: &mut QueuePair<Rc, Rts, Words>) {
    let mut slots = SendSlots::<4, 0>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(wr::Send::inline(b"hello")).unwrap();
    list.post().unwrap();
}

fn main() {}

// A list's slots without an element take no inline data, whose element would be out of
// bounds.
