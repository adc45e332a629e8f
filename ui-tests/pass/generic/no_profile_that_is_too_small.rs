// R3.1, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;
use proverbs::qp::AtLeast;

profile! { Pairs { max_send_sge: 2 } }

struct Client<P>(QueuePair<Rc, Rts, P>)
where
    P: Profile<Entry = Buf, Receive = OwnRq, MaxSendSge: AtLeast<2>, MaxRecvSge: AtLeast<1>>;

fn caller(_: Client<Pairs>) {}
