//! A stream whose other end follows a script.

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::thread;

use proverbs::endpoint::{Timed, Timeouts};

/// The next action of the other end.
pub enum Say {
    /// Sends these bytes, in one piece at most.
    Bytes(Vec<u8>),
    /// Sends these bytes, in one piece, when the deadline passes.
    Late(Vec<u8>),
    /// A read fails with this error.
    Fail(ErrorKind),
    /// Nothing arrives: a read ends with its timeout.
    Silence,
}

/// Receives everything, or `deaf_after` bytes, and sends what the script says; then it hangs up.
#[derive(Default)]
pub struct Scripted {
    says: VecDeque<Say>,
    pub heard: Vec<u8>,
    /// After this many bytes a write fails with this error: `TimedOut` comes after its timeout.
    /// Later writes succeed, unless it is `WriteZero`.
    pub deaf_after: Option<(usize, ErrorKind)>,
    pub timeouts: Cell<Timeouts>,
    /// It does not support timeouts.
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
                thread::sleep(self.timeouts.get().read.expect("a read has a deadline"));
                Err(ErrorKind::WouldBlock.into())
            }
            Some(Say::Late(bytes)) => {
                thread::sleep(self.timeouts.get().read.expect("a read has a deadline"));
                out[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
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
                thread::sleep(self.timeouts.get().write.expect("a write has a deadline"));
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
