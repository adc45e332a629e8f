// Proves R17.1: what may not leave its thread does not leave it through a queue either.
// Enforced by the absence of `Send`: a queue is `Send` only if its entries are.
use proverbs::prelude::*;

type Mine = Buf<std::rc::Rc<()>>;

fn another_thread<T: std::marker::Send>(_: T) {}

fn away(cq: CompletionQueue<Mine>) {
    another_thread(cq);
}

fn main() {}
