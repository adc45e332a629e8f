//! Asynchronous events that wait on a device.

use std::collections::VecDeque;

use crate::objects::signal::Signal;

/// The object of an event, by number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Affiliate {
    Qp(u32),
    Cq(u32),
    Srq(u32),
    Port,
    Device,
}

/// The events of a device, and their descriptor once one was asked for.
#[derive(Default)]
pub(crate) struct AsyncEvents {
    pub(crate) signal: Option<Signal>,
    pub(crate) events: VecDeque<(u32, Affiliate)>,
}
