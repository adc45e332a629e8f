// R2.11, ibv_create_qp(3): the legal twin of the test of this name.
use proverbs::prelude::*;

struct Marker;

profile! { Spelt { max_inline: 128 } }

profile! {
    Own {
        signaling: Selective,
        entry: proverbs::memory::AnyBuf<self::Marker>,
        receive: proverbs::qp::OwnRq
    }
}

profile! {
    Once {
        max_send_sge: 4,
        max_recv_sge: 2,
        entry: Buf<[Marker; 2]>,
        initiator: proverbs::qp::Reads,
    }
}
