// The legal twin of the mistake of this name.
use proverbs::completion::Received;
use proverbs::prelude::*;

struct Server {
    cq: CompletionQueue,
    answered: usize,
}

impl Server {
    fn answer(&mut self, message: Received<Buf>) {
        self.answered += message.byte_len as usize;
    }

    fn serve(&mut self) -> Result<(), proverbs::Error> {
        loop {
            let Some(completion) = self.cq.poll_one()? else { return Ok(()) };
            let Ok(outcome) = completion.outcome().detach() else { continue };
            if let Outcome::Received(message) = outcome {
                self.answer(message);
            }
        }
    }
}
