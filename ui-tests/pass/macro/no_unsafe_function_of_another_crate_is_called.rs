// R11.1: the legal twin of the test of this name.
use std::ops::{Deref, DerefMut};

use proverbs::prelude::*;

struct Queue(QueuePair<Rc, Rts>);

impl Deref for Queue {
    type Target = QueuePair<Rc, Rts>;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Queue {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

fn lists(mut queue: Queue, mut srq: SharedReceiveQueue<Rc>, recv: wr::Recv<Buf>) {
    post_send!(queue, [wr::Send::new(wr::Empty)]).unwrap();
    post_recv!(queue, [wr::Recv::empty()]).unwrap();
    post_srq_recv!(srq, [recv]).unwrap();
}
