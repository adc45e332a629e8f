// R4.6, ibv_post_send(3): the legal twin of ui-tests/initiator/every_way_to_post_asks_for_reads.rs.
use proverbs::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Rc, Rts, Few>, buf: Buf, at: RemoteSpan<ToRead>) {
    let _ = qp.post_send_unsignaled(RdmaRead::new(buf, at));
}

fn pushed(list: &mut SendList<'_, Rc, Few, 1>, buf: Buf, at: RemoteSpan<ToRead>) {
    list.push(RdmaRead::new(buf, at)).unwrap();
}
