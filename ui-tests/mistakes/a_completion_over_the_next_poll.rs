// A mistake: the program keeps a completion while it polls for the next one.
use proverbs::prelude::*;

fn two(cq: &mut CompletionQueue) -> Result<(), proverbs::Error> {
    let first = cq.poll_one()?;
    let second = cq.poll_one()?;
    println!("{first:?} {second:?}");
    Ok(())
}

fn main() {}
