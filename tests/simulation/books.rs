//! The model: where each buffer is, what each queue has to complete, and the content of messages.
//! It receives the program's actions and observations, and reports contradictions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::program::What;

/// A contradiction that the model finds.
pub type Check<T = ()> = Result<T, String>;

macro_rules! hold {
    ($that:expr, $($words:tt)+) => {
        if !$that {
            return Err(format!($($words)+));
        }
    };
}
pub(crate) use hold;

/// The place of a buffer. Each is in one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Home,
    Program,
    /// With the device, on the queue of this life of a queue pair (0: a shared receive queue).
    Sends(u32),
    Receives(u32),
    Forgotten,
}

/// Where buffers are, followed by pieces of the open region; an unused piece counts as free.
#[derive(Default)]
pub struct Places {
    all: Vec<Place>,
    buffers: usize,
}

/// The number of pieces.
pub const PIECES: usize = 16;
/// The length of the first piece; each is one byte longer than the one before, which identifies
/// them.
pub const SHORTEST: usize = 20;

impl Places {
    pub fn new(buffers: usize) -> Places {
        Places { all: vec![Place::Home; buffers + PIECES], buffers }
    }

    /// The number of the piece with this length.
    pub fn piece(&self, len: usize) -> u32 {
        (self.buffers + len - SHORTEST) as u32
    }

    /// An unused piece: its buffer number, and which of the pieces it is.
    pub fn free_piece(&self) -> Option<(u32, usize)> {
        let i = (0..PIECES).find(|i| self.all[self.buffers + i] == Place::Home)?;
        Some(((self.buffers + i) as u32, i))
    }

    pub fn is_piece(&self, wr: &Wr) -> bool {
        wr.buffers.first().is_some_and(|&first| first as usize >= self.buffers)
    }

    /// Whether a value was forgotten, including pieces.
    pub fn any_forgotten(&self) -> bool {
        self.all.contains(&Place::Forgotten)
    }

    pub fn of(&self, buffer: u32) -> Place {
        self.all[buffer as usize]
    }

    pub fn go(&mut self, buffer: u32, from: Place, to: Place) -> Check {
        let is = self.of(buffer);
        hold!(is == from, "buffer {buffer} moves from {from:?} to {to:?}, but is in {is:?}");
        self.all[buffer as usize] = to;
        Ok(())
    }

    pub fn count(&self, place: Place) -> usize {
        self.all[..self.buffers].iter().filter(|&&is| is == place).count()
    }
}

/// A work request with the device.
#[derive(Clone, Debug)]
pub struct Wr {
    /// Unique in the world; the message's bytes derive from it.
    pub number: u64,
    pub buffers: Vec<u32>,
    pub signaled: bool,
    pub what: What,
    pub len: usize,
    /// The offset in the region, and the region.
    pub at: usize,
    pub region: usize,
    pub operands: (u64, u64),
    /// The destination queue pair of a message.
    pub to: u32,
    pub is_shared: bool,
    /// Posted with unknown outcome: it may never complete.
    pub unsure: bool,
}

/// One life of a queue pair, from creation or RESET on.
#[derive(Default)]
pub struct Life {
    pub qpn: u32,
    pub slot: usize,
    pub sends: VecDeque<Wr>,
    pub recvs: VecDeque<Wr>,
    /// The first error of the send queue was seen.
    pub failed: bool,
    /// The progress of its end: of its sends, of its receives.
    pub stages: [Stage; 2],
    /// Room that its completions may still take after a reset: of sends, of receives.
    pub withheld: (usize, usize),
    pub send_cq: usize,
    pub recv_cq: usize,
    /// Its bookings: for sends, for receives.
    pub booked: [usize; 2],
    /// What was outstanding when it ended: sends, receives.
    pub left: [usize; 2],
    /// The program forgot the queue pair, which still works.
    pub forgotten: bool,
}

/// The progress of a life's end, from the view of its completion queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    #[default]
    Alive,
    /// It ended, and the completion queue was not polled since.
    Ended,
    /// It was polled since: this many completions came, and perhaps fewer than requested.
    Known { passed: usize, seen_empty: bool },
    /// No more completions can arrive.
    Over,
}

impl Life {
    /// The completion queues of its sends and its receives.
    pub fn cqs(&self) -> [usize; 2] {
        [self.send_cq, self.recv_cq]
    }

    /// Whether no more completions can arrive.
    pub fn is_quiet(&self) -> bool {
        self.stages == [Stage::Over; 2]
    }
}

/// A message in transit to a queue pair.
#[derive(Clone, Debug)]
pub struct Message {
    pub number: u64,
    pub from: u32,
    pub len: usize,
    pub imm: bool,
    pub write: bool,
    /// The sender's completion was a success.
    pub acknowledged: bool,
    /// Its sender was reset or destroyed, or does not know the outcome: it may never arrive.
    pub doubtful: bool,
    /// The sender's completion was a failure: it must not arrive.
    pub failed: bool,
    pub seen: u32,
    /// Its receiver was drained, which does not show what arrived.
    pub drained: bool,
}

/// The messages in transit to one queue pair number.
#[derive(Default)]
pub struct Stream(pub VecDeque<Message>);

/// How a message may arrive on an unreliable transport.
#[derive(Clone, Copy)]
pub struct Unreliable {
    pub doubles: bool,
    pub overtakes: bool,
}

/// The bytes of message `number`.
pub fn content(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    let mut state = number;
    while bytes.len() < len {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        bytes.extend_from_slice(&(state >> 24).to_le_bytes()[..4]);
    }
    if len < 8 {
        bytes = bytes.iter().map(|byte| byte.wrapping_mul(31) ^ 0x5a).collect();
    }
    bytes.truncate(len);
    bytes
}

/// The received message.
pub struct Arrival<'a> {
    pub bytes: &'a [u8],
    pub byte_len: usize,
    pub imm: Option<u32>,
    pub write: bool,
    pub src_qp: Option<u32>,
}

impl Message {
    fn is(&self, arrival: &Arrival<'_>) -> bool {
        arrival.byte_len == self.len
            && arrival.write == self.write
            && arrival.imm == self.imm.then_some(self.number as u32)
            && (self.write || arrival.bytes == content(self.number, self.len))
            && arrival.src_qp.is_none_or(|src| src == self.from)
    }
}

impl Stream {
    /// On RC: only the next message.
    pub fn reliable(&mut self, arrival: &Arrival<'_>) -> Check<usize> {
        while let Some(front) = self.0.pop_front() {
            if front.is(arrival) {
                hold!(!front.failed, "message {} arrived although its send failed", front.number);
                return Ok(front.len);
            }
            hold!(
                front.doubtful || front.failed || front.drained,
                "RC: message {} ({} bytes, imm {}) must be next; {} bytes {:x?}, imm {:?} arrived",
                front.number,
                front.len,
                front.imm,
                arrival.byte_len,
                &arrival.bytes[..arrival.bytes.len().min(12)],
                arrival.imm
            );
        }
        Err(format!("RC: a message of {} bytes arrived that was not sent", arrival.byte_len))
    }

    /// On UC and UD: one that was sent, whole, no more often and no earlier than faults allow.
    pub fn unreliable(&mut self, arrival: &Arrival<'_>, may: Unreliable) -> Check<usize> {
        let Some(at) = self.0.iter().position(|message| message.is(arrival)) else {
            return Err(format!(
                "a message of {} bytes arrived that was not sent: {:x?}, imm {:x?}",
                arrival.byte_len,
                &arrival.bytes[..arrival.bytes.len().min(12)],
                arrival.imm
            ));
        };
        let message = &mut self.0[at];
        message.seen += 1;
        let most = if may.doubles { 2 } else { 1 };
        let (number, len, from) = (message.number, message.len, message.from);
        hold!(message.seen <= most, "message {number} arrived {} times", message.seen);
        hold!(!message.failed, "message {number} arrived although its send failed");
        if !may.overtakes {
            let later = self.0.range(at + 1..).find(|m| m.from == from && m.seen > 0);
            if let Some(later) = later {
                return Err(format!("message {} arrived before {number}", later.number));
            }
        }
        Ok(len)
    }

    pub fn find(&mut self, number: u64) -> Option<&mut Message> {
        self.0.iter_mut().find(|message| message.number == number)
    }

    /// RC: a message with a successful send completion that did not arrive.
    pub fn lost(&self) -> Option<u64> {
        self.0
            .iter()
            .find(|message| message.acknowledged && !message.drained)
            .map(|message| message.number)
    }
}

/// The memory that one peer writes to.
pub struct Region {
    pub bytes: Vec<u8>,
    /// UC: the writes to each 64 bytes, any of which may be there.
    pub written: BTreeMap<usize, BTreeSet<u64>>,
}

impl Region {
    pub fn new(len: usize) -> Region {
        Region { bytes: vec![0; len], written: BTreeMap::new() }
    }

    /// Applies a work request that succeeded on RC; `got` is the result of a READ or an atomic.
    pub fn apply(&mut self, wr: &Wr, got: Option<&[u8]>) -> Check {
        let cell = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().expect("8 bytes"));
        match wr.what {
            What::Send | What::SendImm => {}
            What::Write | What::WriteImm => {
                self.bytes[wr.at..wr.at + wr.len].copy_from_slice(&content(wr.number, wr.len));
            }
            What::Read => {
                let there = &self.bytes[wr.at..wr.at + wr.len];
                hold!(
                    got.is_none_or(|got| got == there),
                    "READ {} returned the wrong bytes",
                    wr.number
                );
            }
            What::Swap | What::Add => {
                let place = &mut self.bytes[wr.at..wr.at + 8];
                let old = cell(place);
                hold!(
                    got.is_none_or(|got| cell(got) == old),
                    "the atomic {} did not return {old:#x}",
                    wr.number
                );
                let (compare, swap) = wr.operands;
                let new = match wr.what {
                    What::Add => old.wrapping_add(compare),
                    _ if old == compare => swap,
                    _ => old,
                };
                place.copy_from_slice(&new.to_ne_bytes());
            }
        }
        Ok(())
    }
}
