// Proves R11.1: the `unsafe` of a macro calls no function of another crate.
// Enforced by `macros::post_send!`, which takes the crate's name only behind the word `unsafe`.
#![forbid(unsafe_code)]
use proverbs::prelude::*;

/// Stands for another crate, whose `Begun` has an unsafe function of the same name.
mod macros {
    pub use proverbs::macros::Begun;
}

macro_rules! post_mine {
    ($($list:tt)*) => { proverbs::macros::post_send!($crate, $($list)*) };
}

macro_rules! post_vouched {
    ($($list:tt)*) => { proverbs::macros::post_send!(unsafe $crate, $($list)*) };
}

fn lists(qp: &mut QueuePair<Rc, Rts>) {
    post_mine!(qp, [wr::Send::new(wr::Empty)]).unwrap();
}

fn vouched(qp: &mut QueuePair<Rc, Rts>) {
    post_vouched!(qp, [wr::Send::new(wr::Empty)]).unwrap();
}

fn main() {}
