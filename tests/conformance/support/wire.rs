//! A stream between two threads. (Miri has sockets, but neither sends nor receives on them.)

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::sync::mpsc::{Receiver, Sender, channel};

pub struct Wire {
    there: Sender<Vec<u8>>,
    here: Receiver<Vec<u8>>,
    read: VecDeque<u8>,
}

impl Wire {
    pub fn pair() -> (Wire, Wire) {
        let ((a, from_a), (b, from_b)) = (channel(), channel());
        let wire = |there, here| Wire { there, here, read: VecDeque::new() };
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
            // Nothing more comes once the other end is gone.
            self.read.extend(self.here.recv().unwrap_or_default());
        }
        self.read.read(out)
    }
}
