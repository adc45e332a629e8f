//! A program that sleeps without end is noticed by another thread (not under Miri, whose caller has a clock of its own).

use std::process::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// Seconds that a program may take.
const MOST: u32 = 60;

pub struct Watch(Arc<AtomicU64>);

impl Watch {
    pub fn start() -> Watch {
        let running = Arc::new(AtomicU64::new(u64::MAX));
        if !cfg!(miri) {
            let running = running.clone();
            thread::spawn(move || watch(&running));
        }
        Watch(running)
    }

    pub fn begin(&self, program: u64) {
        self.0.store(program, Ordering::Relaxed);
    }
}

fn watch(running: &AtomicU64) {
    let mut seconds = 0;
    let mut last = u64::MAX;
    loop {
        thread::sleep(Duration::from_secs(1));
        let now = running.load(Ordering::Relaxed);
        seconds = if now == last { seconds + 1 } else { 0 };
        last = now;
        if seconds > MOST {
            println!("fail {now}: it sleeps, or works without end: {MOST} s");
            exit(3);
        }
    }
}
