// R9.1, ibv_post_send(3): a list is for a queue.
// Enforced by `post_send!`.
use proverbs::*;

fn list(cq: &mut CompletionQueue, buf: Buf) {
    post_send!(cq, [Send::new(buf)]).unwrap();
}

fn main() {}
