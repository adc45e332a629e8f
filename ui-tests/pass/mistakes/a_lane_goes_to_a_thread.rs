// The legal twin of the mistake of this name.
use proverbs::prelude::*;
use std::thread;

fn start(context: Context) -> Result<(), proverbs::Error> {
    let pd = context.alloc_pd()?;
    thread::spawn(move || pd.alloc_lane()?.create_cq::<Buf>(64).map(drop));
    Ok(())
}
