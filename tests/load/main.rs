//! Many queue pairs on one completion queue and one shared receive queue; two threads with a
//! completion queue each. Every message is counted, every byte checked, and memory must not grow.
//!
//! It runs on the loopback device, or on the one that `PROVERBS_DEVICE` names.
#![forbid(unsafe_code)]

#[allow(dead_code, unused_imports, unused_macros)] // Shared with the conformance suite.
#[path = "../conformance/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use bpaf::Bpaf;
use proverbs::prelude::*;
use proverbs::qp::Max;
use support::{Bring, Device, Wish};

profile! { Shared { receive: SharedRq } }

#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// Queue pairs, connected in pairs.
    #[bpaf(long, argument("QUEUE_PAIRS"), fallback(64), display_fallback)]
    queue_pairs: usize,
    /// The total number of messages.
    #[bpaf(long, argument("MESSAGES"), fallback(20_000), display_fallback)]
    messages: u64,
    /// Run for this long instead: half of it with one thread, half with two.
    #[bpaf(long, argument("SECONDS"))]
    seconds: Option<u64>,
    /// Arguments that cargo gives to every test.
    #[bpaf(positional("REST"), many, hide)]
    _rest: Vec<String>,
}

const SIZE: usize = 64;
/// Outstanding sends on each queue pair.
const WINDOW: usize = 4;

fn main() {
    let options = options().run();
    let time = options.seconds.map(|seconds| Duration::from_secs(seconds) / 2);
    let end = || time.map(|time| Instant::now() + time);
    let half = options.queue_pairs.div_ceil(2).max(2);
    let one = run("one thread", options.queue_pairs, options.messages, end());
    let (other, end) = (options.messages / 2, end());
    let threads = [half, half].map(|n| std::thread::spawn(move || run("of two", n, other, end)));
    let two: u64 = threads.map(|thread| thread.join().expect("a thread of two")).iter().sum();
    println!("{} messages of {SIZE} bytes, none lost, none twice", one + two);
}

/// Resident memory of this process, KiB.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4
}

/// Sends round robin on all queue pairs until `messages` were sent, or until `end`. Returns their
/// number.
fn run(name: &str, queue_pairs: usize, messages: u64, end: Option<Instant>) -> u64 {
    let dev = Device::open();
    let pairs = queue_pairs / 2;
    let buffers = pairs * WINDOW;
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(buffers, SIZE).unwrap();
    let receives = pd.create_pool(2 * buffers, SIZE).unwrap();
    let mut srq = pd.create_srq::<Rc, Buf, Max<1>, ()>(&receives).unwrap();
    let cqe = 2 * pairs * (WINDOW + 1) + 2 * buffers;
    let mut cq = dev.ctx.create_cq(cqe as u32).unwrap();
    while let Some(buf) = receives.take() {
        srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
    }
    let wish = Wish::new();
    let mut senders = Vec::new();
    let mut receivers = Vec::new();
    for _ in 0..pairs {
        let make =
            || pd.create_qp::<Rc, Shared>(&cq, &cq, Depth::on_srq(WINDOW as u32, &srq)).unwrap();
        let (a, b) = (make(), make());
        let (na, nb) = (a.qp_num(), b.qp_num());
        senders.push(Rc::up(a, &dev, nb, &wish));
        receivers.push(Rc::up(b, &dev, na, &wish));
    }
    // The next number for each receiver: messages of one queue pair arrive in order.
    let index: std::collections::HashMap<u32, usize> =
        receivers.iter().enumerate().map(|(i, qp)| (qp.qp_num(), i)).collect();
    let mut sent = vec![0u64; pairs];
    let mut next = vec![0u64; pairs];
    let (mut posted, mut acknowledged, mut arrived) = (0u64, 0u64, 0u64);
    let started = Instant::now();
    // The number of arrivals at which memory is measured next.
    let mut look = 0;
    let (mut warm, mut most) = (0, 0);
    let over = |posted: u64| match end {
        Some(end) => Instant::now() >= end,
        None => posted >= messages,
    };
    let mut at = 0;
    let mut done = false;
    while !done || acknowledged < posted || arrived < posted {
        // As many as there are buffers, unless time is over.
        while !done {
            done = over(posted);
            if done || senders[at].send_room() == 0 {
                at = (at + 1) % pairs;
                break;
            }
            let Some(mut buf) = pool.take() else { break };
            buf.set_len(SIZE);
            buf[..8].copy_from_slice(&sent[at].to_le_bytes());
            buf[8..16].copy_from_slice(&(at as u64).to_le_bytes());
            let fill = (sent[at] as u8) ^ (at as u8);
            buf[16..].fill(fill);
            senders[at].post_send(wr::Send::new(buf)).unwrap();
            sent[at] += 1;
            posted += 1;
            at = (at + 1) % pairs;
        }
        let mut back = Vec::new();
        for completion in cq.poll().unwrap() {
            match completion.outcome() {
                Outcome::Sent(_) => acknowledged += 1,
                Outcome::Received(got) => {
                    let i = index[&got.qp_num];
                    let data = got.data();
                    assert_eq!(data.len(), SIZE, "length");
                    assert_eq!(data[..8], next[i].to_le_bytes(), "in order, none lost, none twice");
                    assert_eq!(data[8..16], (i as u64).to_le_bytes(), "of its peer");
                    let fill = (next[i] as u8) ^ (i as u8);
                    assert!(data[16..].iter().all(|&byte| byte == fill), "bytes");
                    next[i] += 1;
                    arrived += 1;
                    back.extend(got.entry);
                }
                Outcome::Failed(failed) => panic!("{}", failed.error),
                _ => unreachable!("RC, every send signaled"),
            }
        }
        for buf in back {
            srq.post_srq_recv(wr::Recv::new(buf)).unwrap();
        }
        if arrived >= look || done {
            look = arrived + 256;
            let now = resident();
            // The first part warms up: rings, tables and the allocator fill.
            if warm == 0 && (done || posted > messages / 4 || started.elapsed().as_secs() > 5) {
                warm = now;
            }
            most = most.max(now);
        }
    }
    assert_eq!((posted, acknowledged, arrived), (posted, posted, posted), "counts");
    assert_eq!(sent, next, "counts of each queue pair");
    assert_eq!(pool.available(), buffers, "every buffer is back");
    for qp in &senders {
        assert_eq!(qp.sends_outstanding(), 0);
    }
    let seconds = started.elapsed().as_secs_f64();
    let grown = most.saturating_sub(warm);
    println!(
        "{name}: {queue_pairs} queue pairs, one CQ, one SRQ: {posted} messages in {seconds:.1} s, \
         resident {warm} KiB when warm, {grown} KiB more at most"
    );
    // The other thread's pages count too, so this detects leaks, not single pages.
    assert!(warm != 0 && grown < 16 * 1024, "memory grew by {grown} KiB from {warm}");
    posted
}
