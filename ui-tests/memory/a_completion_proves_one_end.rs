// R19.6: a completion proves the end of one key, once.
// Enforced by `LentWindow::revoked`, which takes it by value.
use proverbs::ext::windows::LentWindow;
use proverbs::prelude::*;

fn twice(first: LentWindow, second: LentWindow, by: Completion<'_, AnyBuf>) {
    let _ = first.revoked(by);
    let _ = second.revoked(by);
}

fn lent(window: LentWindow, by: Completion<'_, AnyBuf>) {
    let _ = window.revoked(&by);
}

fn main() {}
