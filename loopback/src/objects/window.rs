//! Memory windows: remote keys for ranges of regions.

pub(crate) struct Window {
    pub(crate) pd: u32,
    pub(crate) is_type_2: bool,
    /// The lower 8 bits of its key: of the last one, if it is not bound.
    pub(crate) tag: u8,
    pub(crate) opened: Option<Opened>,
    /// Whether C has an object for it.
    pub(crate) is_object: bool,
}

/// The bytes and rights that a bound window opens.
#[derive(Clone, Copy)]
pub(crate) struct Opened {
    pub(crate) mr: u32,
    /// In the region's addresses.
    pub(crate) addr: u64,
    pub(crate) length: u64,
    /// Of the first byte, in the peer's work requests.
    pub(crate) first: u64,
    pub(crate) rights: u32,
    /// The queue pair that alone may use and end its key (type 2B).
    pub(crate) qp: Option<u32>,
}

/// A place in a region that a key opens.
pub(crate) struct Place {
    pub(crate) mr: u32,
    pub(crate) addr: u64,
    pub(crate) rights: u32,
}
