//! Work requests, as the device stores them.

use proverbs_sys::persist::{WC_ATOMIC_WRITE, WC_FLUSH};
use proverbs_sys::types::{ibv_wc_flags, ibv_wc_opcode as opcode, ibv_wc_status as status};

#[derive(Clone, Copy)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// The length of the message that a list describes, without wrapping (R2.8).
pub(crate) fn length(list: &[Sge]) -> u64 {
    list.iter().map(|sge| u64::from(sge.length)).sum()
}

pub(crate) struct Recv {
    pub(crate) wr_id: u64,
    pub(crate) list: Vec<Sge>,
}

pub(crate) struct Send {
    pub(crate) wr_id: u64,
    pub(crate) op: Op,
    /// The destination (SRD).
    pub(crate) to: Option<To>,
    pub(crate) extra: Extra,
    pub(crate) signaled: bool,
    pub(crate) solicited: bool,
    /// The shared receive queue that it names (XRC).
    pub(crate) srqn: Option<u32>,
    pub(crate) payload: Payload,
    pub(crate) doom: Doom,
}

impl Send {
    /// Whether iWARP supports this work request: no immediates and atomics, READs into exactly one
    /// element and without a fence, and no SEND_WITH_INV of inline data (`siw_activate_tx_from_sq` of
    /// Linux's drivers/infiniband/sw/siw/siw_qp.c). `proverbs-sys` rejects a READ without an element
    /// before libsiw.
    pub(crate) fn is_of_iwarp(&self, is_fenced: bool) -> bool {
        let has_other_elements = match (&self.op, &self.payload) {
            (Op::Read(_), Payload::List(list)) => list.len() != 1,
            _ => false,
        };
        let is_inline_inv = matches!(self.payload, Payload::Inline(_))
            && matches!(self.extra, Extra::Invalidate(_));
        let is_fenced_read = is_fenced && matches!(self.op, Op::Read(_));
        !self.extra.is_imm()
            && !self.op.is_atomic()
            && !has_other_elements
            && !is_inline_inv
            && !is_fenced_read
    }
}

/// The part of a message besides its data: the header that `imm_data_invalidated_rkey_union`
/// becomes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Extra {
    #[default]
    Nothing,
    /// In network byte order, as in the work request.
    Imm(u32),
    /// The key that the message invalidates.
    Invalidate(u32),
}

impl Extra {
    /// Its length in a packet.
    pub(crate) fn length(self) -> usize {
        if self == Extra::Nothing { 0 } else { 4 }
    }

    pub(crate) fn is_imm(self) -> bool {
        matches!(self, Extra::Imm(_))
    }

    /// The value of the union, in a work request and in a completion.
    pub(crate) fn word(self) -> Option<u32> {
        match self {
            Extra::Nothing => None,
            Extra::Imm(word) | Extra::Invalidate(word) => Some(word),
        }
    }

    /// Its flag in `wc_flags`.
    pub(crate) fn flag(self) -> u32 {
        match self {
            Extra::Nothing => 0,
            Extra::Imm(_) => ibv_wc_flags::IBV_WC_WITH_IMM.0,
            Extra::Invalidate(_) => ibv_wc_flags::IBV_WC_WITH_INV.0,
        }
    }
}

pub(crate) enum Payload {
    /// Copied during the post.
    Inline(Vec<u8>),
    List(Vec<Sge>),
}

impl Payload {
    pub(crate) fn length(&self) -> u64 {
        match self {
            Payload::Inline(bytes) => bytes.len() as u64,
            Payload::List(list) => length(list),
        }
    }
}

/// The destination of a message on SRD.
#[derive(Clone, Copy)]
pub(crate) struct To {
    pub(crate) ah: u32,
    pub(crate) qpn: u32,
    pub(crate) qkey: u32,
}

/// An address in the peer's memory.
#[derive(Clone, Copy)]
pub(crate) struct Remote {
    pub(crate) addr: u64,
    pub(crate) rkey: u32,
}

#[derive(Clone, Copy)]
pub(crate) enum Op {
    Send,
    Datagram {
        ah: u32,
        qpn: u32,
        qkey: u32,
    },
    Write(Remote),
    Read(Remote),
    CompareSwap {
        at: Remote,
        expected: u64,
        new: u64,
    },
    FetchAdd {
        at: Remote,
        add: u64,
    },
    AtomicWrite {
        at: Remote,
        bytes: [u8; 8],
    },
    /// The number of bytes, and the placement.
    Flush {
        at: Remote,
        length: u64,
        placement: u8,
        whole: bool,
    },
    /// Invalidates a local key.
    Invalidate(u32),
    Bind(Bind),
}

impl Op {
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self, Op::CompareSwap { .. } | Op::FetchAdd { .. })
    }

    /// Whether it is an SRD operation that names the peer's memory.
    pub(crate) fn is_rdma(&self) -> bool {
        matches!(self, Op::Write(_) | Op::Read(_))
    }

    pub(crate) fn is_of_window(&self) -> bool {
        matches!(self, Op::Invalidate(_) | Op::Bind(_))
    }

    /// The opcode of its completion.
    pub(crate) fn completes_as(&self) -> opcode::Type {
        match self {
            Op::Send | Op::Datagram { .. } => opcode::IBV_WC_SEND,
            Op::Write(_) => opcode::IBV_WC_RDMA_WRITE,
            Op::Read(_) => opcode::IBV_WC_RDMA_READ,
            Op::CompareSwap { .. } => opcode::IBV_WC_COMP_SWAP,
            Op::FetchAdd { .. } => opcode::IBV_WC_FETCH_ADD,
            Op::AtomicWrite { .. } => WC_ATOMIC_WRITE,
            Op::Flush { .. } => WC_FLUSH,
            Op::Bind(_) => opcode::IBV_WC_BIND_MW,
            Op::Invalidate(_) => opcode::IBV_WC_LOCAL_INV,
        }
    }

    /// Whether it returns data, and counts against the initiator depth.
    pub(crate) fn fetches(&self) -> bool {
        self.is_atomic() || matches!(self, Op::Read(_))
    }

    /// Whether it is a persistence operation. Like a READ it is answered when the peer has executed
    /// it, but it returns no data.
    pub(crate) fn is_of_persistence(&self) -> bool {
        matches!(self, Op::AtomicWrite { .. } | Op::Flush { .. })
    }
}

/// The fate of a work request, decided when the device starts it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doom {
    Undecided,
    None,
    Lost,
    Twice,
    /// It arrives in this run or later.
    Late(u64),
    NotReady,
    NeverReady,
    NoAnswer,
    Fails(status::Type),
}

/// BIND_MW, or `ibv_bind_mw`.
#[derive(Clone, Copy)]
pub(crate) struct Bind {
    pub(crate) window: u32,
    /// The current key, according to the C object.
    pub(crate) known: u32,
    pub(crate) rkey: u32,
    pub(crate) mr: Option<u32>,
    pub(crate) addr: u64,
    /// 0 invalidates the key of a type 1 window.
    pub(crate) length: u64,
    pub(crate) rights: u32,
}

/// A message in transit.
#[derive(Clone)]
pub(crate) struct Message {
    pub(crate) op: Op,
    pub(crate) extra: Extra,
    pub(crate) solicited: bool,
    /// The shared receive queue that it names (XRC).
    pub(crate) srqn: Option<u32>,
    pub(crate) data: Vec<u8>,
    /// The number of bytes that a READ requests.
    pub(crate) asks: usize,
    pub(crate) doom: Doom,
}

impl Message {
    pub(crate) fn of(wr: &Send, data: Vec<u8>) -> Message {
        let Send { op, extra, solicited, srqn, doom, .. } = *wr;
        let asks = wr.payload.length() as usize;
        Message { op, extra, solicited, srqn, data, asks, doom }
    }
}
