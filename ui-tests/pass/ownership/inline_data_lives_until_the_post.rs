// R2.9, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

fn freed(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>) {
    let bytes = [7; 8];
    let mut list = qp.send_list(slots);
    list.push(wr::Send::inline(&bytes)).unwrap();
    list.post().unwrap();
}

fn freed_after_an_extend(qp: &mut QueuePair<Rc, Rts>, slots: &mut SendSlots<4>) {
    let lines = [[7; 8], [8; 8]];
    let mut list = qp.send_list(slots);
    list.extend(lines.iter().map(wr::Send::inline)).unwrap();
    list.post().unwrap();
}

profile! { Framed { max_send_sge: 2 } }

fn one_of_several(qp: &mut QueuePair<Rc, Rts, Framed>, slots: &mut SendSlots<4, 2>) {
    let header = [7; 8];
    let mut list = qp.send_list(slots);
    list.push(wr::Send::inline_list([&header, b"body"])).unwrap();
    list.post().unwrap();
}
