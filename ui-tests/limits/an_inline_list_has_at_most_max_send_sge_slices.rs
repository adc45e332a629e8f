// Proves R3.1, ibv_post_send(3): each slice of an inline list is an element.
// Enforced by `Sges<N>`.
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Framed { max_send_sge: 2 } }

fn method(qp: &mut QueuePair<Rc, Rts, Framed>, header: [u8; 4], body: &[u8], end: &[u8]) {
    qp.post_send(wr::Send::inline_list([&header, body, end])).unwrap();
}

fn in_a_list(qp: &mut QueuePair<Rc, Rts>, header: [u8; 4], body: &[u8]) {
    post_send!(qp, [wr::Send::inline_list([&header, body])]).unwrap();
}

fn slots(list: &mut SendList<Rc, Framed, 1>, header: &'static [u8; 4], body: &'static [u8]) {
    list.push(wr::Send::inline_list([header, body])).unwrap();
}

fn main() {}
