// Proves R2.9, ibv_post_send(3): inline data lives until the post.
// Enforced by the lifetime of `SendList`.
use proverbs::prelude::*;

fn freed(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>) {
    let mut list = qp.send_list(slots);
    {
        let bytes = [7; 8];
        list.push(wr::Send::inline(&bytes)).unwrap();
    }
    list.post().unwrap();
}

fn freed_after_an_extend(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>) {
    let mut list = qp.send_list(slots);
    {
        let lines = [[7; 8], [8; 8]];
        list.extend(lines.iter().map(wr::Send::inline)).unwrap();
    }
    list.post().unwrap();
}

profile! { Framed { max_send_sge: 2 } }

fn one_of_several(qp: &mut QueuePair<Rc, Rts, Framed>, slots: &mut SendSlots<4, 2>) {
    let mut list = qp.send_list(slots);
    {
        let header = [7; 8];
        list.push(wr::Send::inline_list([&header, b"body"])).unwrap();
    }
    list.post().unwrap();
}

fn main() {}
