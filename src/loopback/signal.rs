//! A file descriptor that is readable while something waits.
//!
//! Nobody but the callers of verbs makes the fabric work. So a descriptor on which somebody may sleep is readable
//! not only while an event waits, but also while there is work: whoever wakes calls a verb, and the
//! fabric goes on.

#![allow(unsafe_code)] // One system call that std does not offer.

use std::ffi::c_int;
use std::io::Write;
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
            self.take();
            self.raised = false;
        }
    }

    /// Takes the byte, which is there unless the program took it: the descriptor can be read by who likes.
    #[cfg(not(miri))]
    fn take(&mut self) {
        let mut byte = 0u8;
        let at = (&raw mut byte).cast();
        // SAFETY: a system call on an open descriptor, with room for one byte.
        unsafe { libc::recv(self.fd(), at, 1, libc::MSG_DONTWAIT) };
    }

    /// As Miri has it.
    #[cfg(miri)]
    fn take(&mut self) {
        let _ = std::io::Read::read(&mut self.signal, &mut [0]);
    }

    /// Nothing is there to take. If there is work left, who watches for a change must see one.
    pub(super) fn empty(&mut self, work_left: bool) {
        self.lower();
        if work_left {
            self.raise();
        }
    }
}
