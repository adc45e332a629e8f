// R5.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::rules::KeepsOrder;

/// With the order of the transport, chains and lists need no more than one post does.
fn send_all<T: KeepsOrder, P: Profile<Entry = Buf>>(
    qp: &mut QueuePair<T, Rts, P>,
    [one, two, three, four]: [Buf; 4],
) -> Result<(), PostError<Buf>>
where
    wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, P>,
{
    let mut slots = SendSlots::<4>::new();
    let mut list = qp.send_list(&mut slots);
    list.push(wr::Send::new(one))?;
    list.post()?;
    post_send!(qp, [wr::Send::new(two), wr::Send::new(three)])?;
    let mut send = wr::Send::new(wr::Placeholder).prepare();
    qp.post_prepared(&mut send, four)
}

fn caller(rc: &mut QueuePair<Rc, Rts>, bufs: [Buf; 4]) {
    send_all(rc, bufs).unwrap();
}
