// R19.6: the legal twin of the test of this name.
use proverbs::ext::windows::LentWindow;
use proverbs::prelude::*;

fn one_of_two(first: LentWindow, second: LentWindow, by: Completion<'_, AnyBuf>) {
    if let Err((_first, by)) = first.revoked(by) {
        let _ = second.revoked(by);
    }
}

pub fn main() {
    let _ = one_of_two;
}
