// Proves R7.1, R7.4, ibv_create_qp(3): what a queue pair is created with is not taken apart.
// Enforced by private fields, and by a trait that only the crate can name.
use proverbs::prelude::*;
use proverbs::qp::{CreatedWith, OnSrq};

// The shared receive queue of another argument.
fn of_another<'a>(
    one: OnSrq<'a, Rc, Buf, AnyThread>,
    other: OnSrq<'a, Ud, Buf, AnyThread>,
) -> OnSrq<'a, Rc, Buf, AnyThread> {
    OnSrq { srq: other.srq, ..one }
}

// The arguments of the verb.
fn parts(with: impl CreatedWith<Rc, DefaultProfile>) {
    with.parts();
}

fn main() {}
