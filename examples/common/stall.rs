//! Giving up when nothing moves any more.
//!
//! The C programs hang then: UC and UD do not retransmit, so one lost packet ends the game, and
//! Soft-RoCE retries an RC peer that is gone for ever.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::{Duration, Instant};

use super::patience::patience;

static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));

/// Counts completions; while it exists, a thread ends the program if none comes for a time.
pub struct Progress(Arc<AtomicU64>);

impl Progress {
    /// `program` and `stuck` are what it says then.
    pub fn watch(program: &'static str, stuck: String) -> Progress {
        let count = Arc::new(AtomicU64::new(0));
        let watched = Arc::downgrade(&count);
        thread::spawn(move || {
            let mut last = (0, Instant::now());
            while let Some(count) = watched.upgrade() {
                let now = count.load(Ordering::Relaxed);
                drop(count);
                if now != last.0 {
                    last = (now, Instant::now());
                } else if last.1.elapsed() > *PATIENCE {
                    let time = PATIENCE.as_secs();
                    eprintln!("{program}: no completion for {time} s, after {now}: {stuck}");
                    // The other thread may be asleep in the kernel, where nothing wakes it.
                    std::process::exit(1);
                }
                thread::sleep(Duration::from_millis(200));
            }
        });
        Progress(count)
    }

    pub fn made(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}
