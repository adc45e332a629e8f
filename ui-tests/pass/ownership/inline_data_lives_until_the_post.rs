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
