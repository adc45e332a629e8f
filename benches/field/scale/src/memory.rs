//! Bytes on top of C's.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use proverbs::prelude::*;

use crate::ground::{Chosen, Ground};

/// Bytes that live.
static LIVE: AtomicIsize = AtomicIsize::new(0);

struct Counting;

fn add(bytes: usize, sign: isize) {
    LIVE.fetch_add(sign * bytes as isize, Ordering::Relaxed);
}

// SAFETY: `System` does the work; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size(), 1);
        // SAFETY: the layout is the caller's, who answers for it to any allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        add(layout.size(), -1);
        // SAFETY: `alloc` took it from `System`, with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(layout.size(), -1);
        add(size, 1);
        // SAFETY: `alloc` took it from `System`, with this layout; the size is the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Queue pairs that are made, so that what grows by doubling is spread.
const PAIRS: u32 = 1000;
/// Depths of the send queue, to tell what is once from what is for each slot.
const DEPTHS: [u32; 2] = [16, 256];
/// That of the receive queue.
const RECEIVES: u32 = 16;

/// Lines `bytes WHAT NUMBER`.
pub fn print() {
    let handle = size_of::<QueuePair<Rc, Rts>>() as f64;
    pairs::<DefaultProfile>("owned", handle);
    pairs::<Chosen>("selective", size_of::<QueuePair<Rc, Rts, Chosen>>() as f64);
    // The buffers themselves are a program's payload; what is left is what makes them movable.
    let ground = Ground::new();
    let (count, len) = (4096, 64);
    let (_pool, bytes) = grown(|| ground.pd.create_pool(count, len).expect("a pool"));
    println!("bytes buffer {}", (bytes - (count * len) as f64) / count as f64);
    println!("bytes handle {}", size_of::<Buf>());
}

/// What a queue pair costs, and what each slot of its send queue.
fn pairs<P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads, Entry = Buf>>(
    name: &str,
    handle: f64,
) {
    let [few, many] = DEPTHS.map(bytes_of_pair::<P>);
    let slot = (many - few) / f64::from(DEPTHS[1] - DEPTHS[0]);
    println!("bytes {name}-pair {:.1}", few - slot * f64::from(DEPTHS[0]) + handle);
    println!("bytes {name}-slot {slot:.1}");
}

fn bytes_of_pair<
    P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads, Entry = Buf>,
>(
    send: u32,
) -> f64 {
    let depth = Depth { send, recv: RECEIVES };
    let ground = Ground::new();
    let cq = ground.cq(PAIRS, depth);
    let mut all = Vec::with_capacity(PAIRS as usize);
    let ((), bytes) = grown(|| all.extend((0..PAIRS).map(|_| ground.connect::<P>(&cq, depth))));
    bytes / f64::from(PAIRS)
}

/// What `f` gives, and by how many bytes the heap has grown.
fn grown<R>(f: impl FnOnce() -> R) -> (R, f64) {
    let before = LIVE.load(Ordering::Relaxed);
    let made = f();
    (made, (LIVE.load(Ordering::Relaxed) - before) as f64)
}
