// Proves R3.1, ibv_create_qp(3): generic code is not used with a profile that has fewer elements.
// Enforced by `AtLeast`.
use proverbs::prelude::*;
use proverbs::qp::AtLeast;

struct Client<P>(QueuePair<Rc, Rts, P>)
where
    P: Profile<Entry = Buf, Receive = OwnRq, MaxSendSge: AtLeast<2>, MaxRecvSge: AtLeast<1>>;

fn caller(_: Client<DefaultProfile>) {}

fn main() {}
