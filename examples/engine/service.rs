//! A thread that waits for events until it is stopped.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use anyhow::Result;
use proverbs::events::Waker;

/// A thread. Dropping this wakes it and waits for its end.
pub struct Service {
    pub waker: Arc<Waker>,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    /// Calls `turn`, which sleeps with the waker, until it returns false or fails.
    pub fn start(
        name: &str,
        mut turn: impl FnMut(&Waker) -> Result<bool> + Send + 'static,
    ) -> Result<Service> {
        let waker = Arc::new(Waker::new()?);
        let woken = waker.clone();
        let run = move || {
            let mut turn = || turn(&woken).inspect_err(|error| eprintln!("engine: {error:#}"));
            while turn().unwrap_or(false) {}
        };
        Ok(Service { waker, thread: Some(Builder::new().name(name.into()).spawn(run)?) })
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.waker.wake();
        self.thread.take().into_iter().for_each(|thread| thread.join().expect("no panic"));
    }
}
