// A mistake: the program calls a method of `self` while the completions of the poll are borrowed.
use proverbs::prelude::*;
use proverbs::completion::Received;

struct Server {
    cq: CompletionQueue,
    answered: usize,
}

impl Server {
    fn answer(&mut self, message: Received<Buf>) {
        self.answered += message.byte_len as usize;
    }

    fn serve(&mut self) -> Result<(), proverbs::Error> {
        for completion in self.cq.poll()? {
            if let Outcome::Received(message) = completion.outcome() {
                self.answer(message);
            }
        }
        Ok(())
    }
}

fn main() {}
