// R17.1, ibv_post_send(3): the legal twin of the test of this name.

use proverbs::completion::CqHandle;
use proverbs::prelude::*;
use proverbs::qp::{AnyThread, Max};
use std::sync;

profile! { Mine { entry: Buf<sync::Arc<u8>> } }

fn is_send<T: Send>(_: T) {}

fn queue_pair(qp: QueuePair<Rc, Rts, Mine>) {
    is_send(qp);
}

fn shared_receives(srq: SharedReceiveQueue<Rc, Buf<sync::Arc<u8>>>) {
    is_send(srq);
}

fn completions(cq: CompletionQueue<Buf<sync::Arc<u8>>>) {
    is_send(cq);
}

fn handle(handle: CqHandle<Buf<sync::Arc<u8>>>) {
    is_send(handle);
}

fn of_a_lane(srq: SharedReceiveQueue<Rc, Buf, Max<1>, AnyThread>) {
    is_send(srq);
}
