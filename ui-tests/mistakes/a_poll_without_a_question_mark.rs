// A mistake: the program iterates over the `Result` of a poll.
use proverbs::prelude::*;

fn serve(cq: &mut CompletionQueue) {
    for completion in cq.poll() {
        if let Outcome::Received(message) = completion.outcome() {
            println!("{} bytes", message.byte_len);
        }
    }
}

fn main() {}
