// The legal twin of the mistake of this name.
use proverbs::prelude::*;
use std::thread;

fn hand_over(completion: Completion<'_, Buf>) {
    let entry = completion.into_entry();
    thread::spawn(move || drop(entry));
}
