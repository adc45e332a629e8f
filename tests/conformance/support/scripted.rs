//! A stream whose other end does what a test says.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::thread;

use proverbs::endpoint::{Timed, Timeouts};

/// What the other end does next.
pub enum Say {
    /// These bytes come, in one piece at most.
    Bytes(Vec<u8>),
    /// A read fails so.
    Fail(ErrorKind),
    /// Nothing comes: a read ends with its time-out.
    Silence,
}

/// Hears everything, `deaf_after` so many bytes, and says what it was told to; then it hangs up.
#[derive(Default)]
pub struct Scripted {
    says: VecDeque<Say>,
    pub heard: Vec<u8>,
    /// After so many bytes a write ends so: `TimedOut` comes after its time-out. Later ones are
    /// heard, unless it is `WriteZero`.
    pub deaf_after: Option<(usize, ErrorKind)>,
    pub timeouts: Cell<Timeouts>,
    /// It cannot be held to a time.
    pub is_timeless: bool,
}

impl Scripted {
    pub fn new(says: impl IntoIterator<Item = Say>) -> Scripted {
        Scripted { says: says.into_iter().collect(), ..Scripted::default() }
    }
}

impl Read for Scripted {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self.says.pop_front() {
            None => Ok(0),
            Some(Say::Fail(kind)) => Err(kind.into()),
            Some(Say::Silence) => {
                self.says.push_front(Say::Silence);
                thread::sleep(self.timeouts.get().read.expect("who waits has a deadline"));
                Err(ErrorKind::WouldBlock.into())
            }
            Some(Say::Bytes(mut bytes)) => {
                let count = bytes.len().min(out.len());
                out[..count].copy_from_slice(&bytes[..count]);
                if count < bytes.len() {
                    self.says.push_front(Say::Bytes(bytes.split_off(count)));
                }
                Ok(count)
            }
        }
    }
}

impl Write for Scripted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let (most, end) = self.deaf_after.unwrap_or((usize::MAX, ErrorKind::TimedOut));
        let room = most - self.heard.len();
        if room == 0 {
            if end == ErrorKind::TimedOut {
                thread::sleep(self.timeouts.get().write.expect("who waits has a deadline"));
            }
            if end == ErrorKind::WriteZero {
                return Ok(0);
            }
            self.deaf_after = None;
            return Err(end.into());
        }
        let count = bytes.len().min(room);
        self.heard.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Timed for Scripted {
    fn timeouts(&self) -> io::Result<Timeouts> {
        Ok(self.timeouts.get())
    }

    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
        self.timeouts.set(timeouts);
        if self.is_timeless { Err(ErrorKind::Unsupported.into()) } else { Ok(()) }
    }
}
