//! The time to take and drop a buffer when one thread, or two at the same time, use a pool, an
//! arena, and a list of buffers behind a lock:
//!
//!     cargo run --release -p proverbs-overhead --example two_threads

#![forbid(unsafe_code)]

use std::hint::black_box;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use proverbs::loopback::Fabric;

const ROUNDS: u32 = 2_000_000;
const BUFS: usize = 64;
const LENGTH: usize = 256;

/// The shortest of five times per round in nanoseconds, when this many threads run it.
fn time(threads: usize, round: impl Fn() + Sync) -> f64 {
    let once = || {
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..ROUNDS).for_each(|_| round()));
            }
        });
        start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS)
    };
    (0..5).map(|_| once()).fold(f64::MAX, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd()?;
    let pool = pd.create_pool(BUFS, LENGTH)?;
    let arena = pd.create_arena(BUFS * LENGTH, BUFS)?;
    let locked = Mutex::new((0..BUFS).collect::<Vec<usize>>());
    let list = || {
        let taken = locked.lock().expect("no panic").pop().expect("a buffer");
        locked.lock().expect("no panic").push(black_box(taken));
    };
    println!("ns per take and drop   1 thread  2 threads");
    let row = |name: &str, round: &(dyn Fn() + Sync)| {
        println!("{name:<22} {:>8.1} {:>10.1}", time(1, round), time(2, round));
    };
    row("pool", &|| drop(black_box(pool.take().expect("a buffer"))));
    row("arena", &|| drop(black_box(arena.take(LENGTH).expect("a buffer"))));
    row("locked list", &list);
    Ok(())
}
