// R1.1, ibv_post_send(3): every way to post asks for the opcode.
// Enforced by `PostOn<T>`.
use proverbs::memory::ToRead;
use proverbs::post::SendList;
use proverbs::prelude::*;

profile! { Few { signaling: Selective } }

fn unsignaled(qp: &mut QueuePair<Uc, Rts, Few>, buf: Buf, at: RemoteSpan<ToRead>) {
    let _ = qp.post_send_unsignaled(wr::RdmaRead::new(buf, at));
}

fn pushed(list: &mut SendList<'_, Uc, DefaultProfile, 1>, buf: Buf, at: RemoteSpan<ToRead>) {
    list.push(wr::RdmaRead::new(buf, at)).unwrap();
}

fn main() {}
