//! A file descriptor that is readable while something waits.
//!
//! Nobody but the callers of verbs makes the fabric work. So a descriptor on which somebody may sleep is readable
//! not only while an event waits, but also while there is work: whoever wakes calls a verb, and the
//! fabric goes on.

use std::ffi::c_int;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

use super::Verb;

pub(super) struct Signal {
    /// The user's descriptor, with one byte to read while `raised`, and its other end.
    /// (An eventfd would be one descriptor less, but Miri cannot tell whether it blocks.)
    signal: UnixStream,
    raise: UnixStream,
    raised: bool,
}

impl Signal {
    pub(super) fn new() -> Verb<Signal> {
        let failed = |error: std::io::Error| error.raw_os_error().unwrap_or(libc::EMFILE);
        let (signal, raise) = UnixStream::pair().map_err(failed)?;
        // A program may have taken the byte. (Miri's sockets always block, and its programs do not take it.)
        #[cfg(not(miri))]
        signal.set_nonblocking(true).map_err(failed)?;
        Ok(Signal { signal, raise, raised: false })
    }

    pub(super) fn fd(&self) -> c_int {
        self.signal.as_raw_fd()
    }

    pub(super) fn raise(&mut self) {
        if !self.raised {
            // There is room: at most this one byte is ever in it.
            let _ = self.raise.write(&[1]);
            self.raised = true;
        }
    }

    pub(super) fn lower(&mut self) {
        if self.raised {
            let _ = self.signal.read(&mut [0]);
            self.raised = false;
        }
    }

    /// Nothing is there to take. If there is work left, who watches for a change must see one.
    pub(super) fn empty(&mut self, work_left: bool) {
        self.lower();
        if work_left {
            self.raise();
        }
    }
}
