//! A thread that detects programs that sleep forever (not under Miri, whose caller has its own time
//! limit).

use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The running turn, and its start.
type Running = Arc<Mutex<Option<(u64, u64, Instant)>>>;

pub struct Watch(Running);

impl Watch {
    /// A turn may take this many seconds.
    pub fn start(seconds: u64) -> Watch {
        let running = Running::default();
        if !cfg!(miri) {
            let running = running.clone();
            thread::spawn(move || watch(&running, seconds));
        }
        Watch(running)
    }

    pub fn begin(&self, program: u64, turn: u64) {
        let mut running = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *running = Some((program, turn, Instant::now()));
    }
}

fn watch(running: &Running, seconds: u64) {
    loop {
        thread::sleep(Duration::from_millis(500));
        let now = *running.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((program, turn, since)) = now else { continue };
        if since.elapsed() > Duration::from_secs(seconds) {
            println!("fail {program}:{turn}: it sleeps, or works without end: {seconds} s");
            exit(3);
        }
    }
}
