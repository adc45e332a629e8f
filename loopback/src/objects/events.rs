//! Pending asynchronous events of a device.

use std::collections::VecDeque;

use crate::objects::signal::Signal;

/// The object that an event is about, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affiliate {
    Qp(u32),
    Cq(u32),
    Srq(u32),
    Port,
    Device,
}

/// The events of a device, and their descriptor once it was requested.
#[derive(Default)]
pub(crate) struct AsyncEvents {
    pub(crate) signal: Option<Signal>,
    pub(crate) events: VecDeque<(u32, Affiliate)>,
}
