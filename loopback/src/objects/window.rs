//! Memory windows: remote keys for ranges of regions.

pub(crate) struct Window {
    pub(crate) pd: u32,
    pub(crate) is_type_2: bool,
    /// The lower 8 bits of its key; of the last key, if it is not bound.
    pub(crate) tag: u8,
    pub(crate) opened: Option<Opened>,
    /// Whether a C object (`ibv_mw`) exists for the window.
    pub(crate) is_object: bool,
}

/// The bytes and rights that a bound window gives access to.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) mr: u32,
    /// An address in the region.
    pub(crate) addr: u64,
    pub(crate) length: u64,
    /// The address of the first byte, as the peer's work requests give it.
    pub(crate) first: u64,
    pub(crate) rights: u32,
    /// The only queue pair that may use and invalidate its key (type 2B).
    pub(crate) qp: Option<u32>,
}

/// A place in a region that a key gives access to.
pub(crate) struct Place {
    pub(crate) mr: u32,
    pub(crate) addr: u64,
    pub(crate) rights: u32,
}
