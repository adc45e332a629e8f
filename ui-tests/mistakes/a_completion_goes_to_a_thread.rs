// A mistake: the program moves a completion to another thread.
use proverbs::prelude::*;
use std::thread;

fn hand_over(completion: Completion<'static, Buf>) {
    thread::spawn(move || drop(completion));
}

fn main() {}
