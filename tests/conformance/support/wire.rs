//! A stream between two threads. (Miri has sockets, but can neither send nor receive on them.)

use std::cell::Cell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};

use proverbs::endpoint::{Timed, Timeouts};

pub struct Wire {
    there: Sender<Vec<u8>>,
    here: Receiver<Vec<u8>>,
    read: VecDeque<u8>,
    timeouts: Cell<Timeouts>,
}

impl Wire {
    pub fn pair() -> (Wire, Wire) {
        let ((a, from_a), (b, from_b)) = (channel(), channel());
        let wire = |there, here| {
            let (read, timeouts) = Default::default();
            Wire { there, here, read, timeouts }
        };
        (wire(a, from_b), wire(b, from_a))
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.there.send(bytes.to_vec()).map_err(|_| ErrorKind::BrokenPipe)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Wire {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.read.is_empty() {
            let came = match self.timeouts.get().read {
                Some(time) => self.here.recv_timeout(time),
                None => self.here.recv().map_err(RecvTimeoutError::from),
            };
            match came {
                Ok(bytes) => self.read.extend(bytes),
                Err(RecvTimeoutError::Timeout) => return Err(ErrorKind::TimedOut.into()),
                // Nothing more arrives once the other end is gone.
                Err(RecvTimeoutError::Disconnected) => {}
            }
        }
        self.read.read(out)
    }
}

impl Timed for Wire {
    fn timeouts(&self) -> io::Result<Timeouts> {
        Ok(self.timeouts.get())
    }

    fn set_timeouts(&self, timeouts: Timeouts) -> io::Result<()> {
        self.timeouts.set(timeouts);
        Ok(())
    }
}
