// Proves R11.1, ibv_post_send(3): no code takes part in a macro's steps, and keeps a buffer so.
// Enforced by `Begun`: only the macros, in their `unsafe`, get the list that a queue begins.
use proverbs::prelude::*;

struct Thief<L>(L);

impl<L> std::ops::Deref for Thief<L> {
    type Target = L;
    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<L> Thief<L> {
    fn post(self, [buf]: [Option<Buf>; 1], _: *mut u8, _: *mut u8) -> Option<Buf> {
        buf
    }
}

fn thief(qp: &mut QueuePair<Rc, Rts>) {
    let thief = Thief(qp.begin_send().vouch());
    let _ = thief.post([None], std::ptr::null_mut(), std::ptr::null_mut());
}

fn main() {}

// Safe code cannot take a list from `Begun`, so no buffer returns twice.
