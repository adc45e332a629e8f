// Proves R11.1: the `unsafe` of a macro calls no function of another type.
// Enforced by `post_send!`, whose expansion names the type of the list that a queue begins.
use proverbs::prelude::*;

/// Stands for a type of another crate, which is sound.
struct Other;

impl Other {
    /// # Safety
    /// Never.
    unsafe fn vouch(self) -> Other {
        unreachable!()
    }

    unsafe fn emit<A>(&mut self, _: A, _: *mut u8, _: *mut u8) -> Other {
        unreachable!()
    }
}

struct Queue;

impl Queue {
    fn begin_send(&mut self) -> Other {
        Other
    }

    fn begin_recv(&mut self) -> Other {
        Other
    }

    fn begin_srq(&mut self) -> Other {
        Other
    }
}

fn lists(mut queue: Queue) {
    post_send!(queue, [1]);
    post_recv!(queue, [1]);
    post_srq_recv!(queue, [1]);
}

fn main() {}
