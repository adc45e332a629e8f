// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn serve(cq: &mut CompletionQueue) -> Result<(), proverbs::Error> {
    for completion in cq.poll()? {
        if let Outcome::Received(message) = completion.outcome() {
            println!("{} bytes", message.byte_len);
        }
    }
    Ok(())
}
