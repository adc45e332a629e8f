// R1.1, ibv_post_send(3): the legal twin of the test of this name.
use proverbs::memory::ToRead;
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Few>, buf: Buf, at: RemoteSpan<ToRead>) {
    let _ = qp.post_send_unsignaled(wr::RdmaRead::new(buf, at));
}

fn pushed(list: &mut SendList<'_, Rc, DefaultProfile, 1>, buf: Buf, at: RemoteSpan<ToRead>) {
    list.push(wr::RdmaRead::new(buf, at)).unwrap();
}

fn extended<'d>(
    list: &mut SendList<'d, Rc, DefaultProfile, 1>,
    bufs: Vec<Buf>,
    at: RemoteSpan<ToRead>,
) {
    list.extend(bufs.into_iter().map(move |buf| wr::RdmaRead::new(buf, at))).unwrap();
}

fn prepared_unsignaled(
    qp: &mut QueuePair<Rc, Rts, Few>,
    read: &mut wr::Prepared<wr::RdmaRead, wr::Placeholder>,
    buf: Buf,
) {
    let _ = qp.post_prepared_unsignaled(read, buf);
}

fn prepared_inline(qp: &mut QueuePair<Rc, Rts>, write: &mut wr::Prepared<wr::RdmaWrite, [u8; 8]>) {
    qp.post_prepared_inline(write).unwrap();
}
