// A mistake: the program moves a lane to the thread that is to use it.
use proverbs::prelude::*;
use std::thread;

fn start(context: Context) -> Result<(), proverbs::Error> {
    let lane = context.alloc_pd()?.alloc_lane()?;
    thread::spawn(move || lane.create_cq::<Buf>(64).is_ok());
    Ok(())
}

fn main() {}
