//! A file descriptor that is readable while something is pending.
//!
//! The fabric works only during verb calls. So a descriptor on which a program may sleep is
//! readable both while an event is pending and while there is work. The thread that wakes calls a
//! verb, and the fabric continues.

use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use crate::words::Verb;

pub(crate) struct Signal {
    /// The user's end, with one byte to read while `raised`, and the other end. (An eventfd would
    /// save one descriptor, but Miri does not know whether it blocks.)
    pub(crate) signal: UnixStream,
    pub(crate) raise: UnixStream,
    pub(crate) raised: bool,
}

impl Signal {
    pub(crate) fn new() -> Verb<Signal> {
        let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EMFILE);
        let (signal, raise) = UnixStream::pair().map_err(failed)?;
        // A program may have taken the byte. (Miri's sockets always block, and its programs do not
        // take the byte.)
        #[cfg(not(miri))]
        signal.set_nonblocking(true).map_err(failed)?;
        Ok(Signal { signal, raise, raised: false })
    }

    pub(crate) fn fd(&self) -> c_int {
        self.signal.as_raw_fd()
    }

    pub(crate) fn raise(&mut self) {
        if !self.raised {
            // The write never blocks: at most this one byte is in the socket.
            let _ = self.raise.write(&[1]);
            self.raised = true;
        }
    }

    pub(crate) fn lower(&mut self) {
        if self.raised {
            let _ = self.signal.read(&mut [0]);
            self.raised = false;
        }
    }

    /// No event is pending. If work is left, makes the descriptor readable again, for
    /// edge-triggered watchers.
    pub(crate) fn empty(&mut self, work_left: bool) {
        self.lower();
        if work_left {
            self.raise();
        }
    }
}
