// Proves R17.1: if the context of its buffers is not `Send`, neither is the queue pair.
// Enforced by `Send`, which asks it of the entries.

use proverbs::completion::CqHandle;
use proverbs::prelude::*;
use proverbs::qp::Max;
use std::rc;

profile! { Mine { entry: Buf<rc::Rc<u8>> } }

fn is_send<T: Send>(_: T) {}

fn queue_pair(qp: QueuePair<Rc, Rts, Mine>) {
    is_send(qp);
}

fn shared_receives(srq: SharedReceiveQueue<Rc, Buf<rc::Rc<u8>>>) {
    is_send(srq);
}

fn completions(cq: CompletionQueue<Buf<rc::Rc<u8>>>) {
    is_send(cq);
}

fn handle(handle: CqHandle<Buf<rc::Rc<u8>>>) {
    is_send(handle);
}

fn of_a_lane(srq: SharedReceiveQueue<Rc, Buf, Max<1>, InLane>) {
    is_send(srq);
}

fn main() {}
