// The legal twin of the mistake of this name.
use proverbs::prelude::*;

fn two(cq: &mut CompletionQueue) -> Result<(), proverbs::Error> {
    let first = cq.poll_one()?.and_then(Completion::into_entry);
    let second = cq.poll_one()?;
    println!("{first:?} {second:?}");
    Ok(())
}
