// R3.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;

profile! { Mine { max_send_sge: 2, entry: BufList } }

fn push(qp: &mut QueuePair<Rc, Rts, Mine>, bufs: [Buf; 2]) -> Result<(), PostError<BufList>> {
    let mut slots = SendSlots::<1, 2>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(wr::Send::new(bufs))?;
    list.post()
}
