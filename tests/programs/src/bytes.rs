//! The bytes that programs send, receive and expose: each is where it belongs.

use proverbs::completion::{Completions, Received, UdReceived, WcOpcode};
use proverbs::ext::windows::Windowed;
use proverbs::memory::{Access, Entry, Memory, Owned, Remote};
use proverbs::prelude::*;

use crate::world::{World, lock};

impl World {
    /// From now on a peer may write here.
    pub fn opens<A: Access>(&self, remote: RemoteSlice<A>) {
        let bytes = remote.to_bytes();
        let word = |at: usize| bytes[at..at + 8].iter().fold(0, |all, b| all << 8 | u64::from(*b));
        let rkey = bytes[16..20].iter().fold(0, |all, b| all << 8 | u32::from(*b));
        lock(&self.written).push((rkey, word(0), word(8)));
    }

    /// Checks that only the intended bytes were written.
    pub fn untouched<A: Access + Remote, M: Memory>(&self, region: &MemoryRegion<A, M>) {
        let bytes = region.remote().to_bytes();
        let addr = bytes[..8].iter().fold(0, |all, b| all << 8 | u64::from(*b));
        let mut content = vec![0; region.len()];
        if region.read_at(0, &mut content).is_err() {
            return self.complain("a region cannot be read from end to end");
        }
        let written = lock(&self.written);
        for (at, _) in content.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            let at = addr + at as u64;
            if !written.iter().any(|(_, from, len)| *from <= at && at - from < *len) {
                return self.complain(format!("byte {} of a region was written", at - addr));
            }
        }
    }

    /// The bytes of a region that only windows expose.
    pub fn content(&self, region: &MemoryRegion<Windowed<LocalWrite>>) -> Vec<u8> {
        let mut content = vec![0; region.len()];
        if region.read_at(0, &mut content).is_err() {
            self.complain("a region cannot be read from end to end");
        }
        content
    }

    /// Checks that a program sends such bytes: each is one more than the one before.
    fn sent_like_this(&self, bytes: &[u8]) {
        if bytes.windows(2).any(|two| two[1] != two[0].wrapping_add(1)) {
            self.complain(format!("these bytes were never sent: {bytes:x?}"));
        }
    }

    pub fn received<E: Entry>(&self, received: &Received<E>) {
        if received.opcode == WcOpcode::Recv {
            let bytes: Vec<u8> = received.segments().flatten().copied().collect();
            self.sent_like_this(&bytes);
            if bytes.len() != received.byte_len as usize && received.entry.is_some() {
                self.complain("a message and its completion have different lengths");
            }
        }
    }

    pub fn datagram<E: Entry>(&self, received: &UdReceived<E>) {
        let bytes: Vec<u8> = received.payload_segments().flatten().copied().collect();
        self.sent_like_this(&bytes);
        let here = received.entry.is_some();
        if here && bytes.len() != received.payload_len() {
            self.complain("a datagram and its completion have different lengths");
        }
        if received.reply_vector(1, 1).is_some() {
            let grh = received.grh();
            let known = grh.is_none_or(|it| it.source().is_some() && it.destination().is_some());
            if here && !known {
                self.complain("a datagram has a reply vector, but no source");
            }
        }
    }

    /// A READ of this many bytes was posted.
    pub fn reads(&self, len: u64) {
        lock(&self.read).push(len);
    }

    /// Checks the fields of a completion, and returns its entry; a selective one is dropped.
    pub fn outcome<E: Owned + Bytes>(&self, completion: Completion<'_, E>) -> Option<E> {
        match completion.outcome() {
            Outcome::Sent(sent) => {
                let read = sent.opcode == WcOpcode::RdmaRead;
                let bytes = sent.entry.as_ref().map_or(0, |entry| entry.bytes() as u64);
                if read && !lock(&self.read).contains(&bytes) {
                    self.complain(format!("a READ returned {bytes} bytes, which none requested"));
                }
                sent.entry
            }
            Outcome::Received(received) => {
                self.received(&received);
                received.entry
            }
            Outcome::Datagram(received) => {
                self.datagram(&received);
                received.entry
            }
            Outcome::Failed(failed) => failed.entry,
            _ => None,
        }
    }
}

/// A buffer whose bytes depend on `tag`.
pub fn tagged<C>(mut buf: Buf<C>, len: usize, tag: u8) -> Buf<C> {
    buf.set_len(len);
    let mut byte = tag;
    for at in buf.iter_mut() {
        *at = byte;
        byte = byte.wrapping_add(1);
    }
    buf
}

/// Two completions in one function: the first ends while the second lives.
pub fn end_first<'cq, E: Owned>(
    first: Completions<'cq, E>,
    second: Completion<'cq, E>,
) -> Option<E> {
    drop(first);
    second.into_entry()
}

/// The number of bytes of an entry.
pub trait Bytes {
    fn bytes(&self) -> usize;
}

impl<C> Bytes for Buf<C> {
    fn bytes(&self) -> usize {
        self.len()
    }
}

impl<C> Bytes for BufList<C> {
    fn bytes(&self) -> usize {
        self.segments().map(<[u8]>::len).sum()
    }
}

impl<C> Bytes for AnyBuf<C> {
    fn bytes(&self) -> usize {
        match self {
            AnyBuf::Buf(buf) => buf.len(),
            AnyBuf::List(list) => list.segments().map(<[u8]>::len).sum(),
            _ => 0,
        }
    }
}
