//! rdma_cm's events by the state of the id: the effect of each on a call or a future that waits.
//!
//! The rows are what Linux sends (`cma.c`, `ucma.c`, `iwcm.c`, and librdmacm on top), not the state
//! machine that the manual suggests. Notable rows:
//!
//! - UNREACHABLE is sent for an established connection since Linux 6.0, when the address of its
//!   neighbour changes. Before a connection is established, it ends the retries of a request or a
//!   reply.
//! - REJECTED is sent for an established connection if its peer gives up late.
//! - DISCONNECTED has status -ETIMEDOUT if the peer did not confirm.
//! - ADDR_ERROR answers a lookup of a datagram service whose Q_Key conflicts.
//! - TIMEWAIT_EXIT follows DISCONNECTED, never on iWARP.
//! - No kernel sends CONNECT_ERROR for `accept` or for the end of a connection, nor DISCONNECTED
//!   and TIMEWAIT_EXIT for `connect` on InfiniBand and RoCE. They fail, to be safe.
//! - ADDR_CHANGE is a hint: the connection still works. Linux sends it when a bond fails over.
//! - DEVICE_REMOVAL is the last event of its id.
//!
//! [`Fabric::raise_cm`](crate::loopback::Fabric::raise_cm) can raise each cell, and
//! `tests/cm/table.rs` does. The page of `cm` has the table for users.

use super::event::{Event, EventKind};

/// The steps that wait for events of an id.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waiting {
    /// `resolve_addr`.
    Addr,
    /// `resolve_route`.
    Route,
    /// `connect` on TCP; the flag says whether the device speaks iWARP.
    Connect { is_iwarp: bool },
    /// `connect` on UDP.
    LookUp,
    /// `accept`.
    Accept,
    /// The end of an established connection.
    End,
    /// The peer's confirmation after this side disconnected.
    Confirmation,
}

/// The effect of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The step is done. For an established connection: it has ended in order.
    Done,
    /// The step failed, or the connection broke.
    Fails,
    /// The event changes nothing.
    Nothing,
}

impl Waiting {
    /// Whether it is about the end of a connection. Any call may have taken that event.
    pub fn is_for_the_end(self) -> bool {
        matches!(self, Waiting::End | Waiting::Confirmation)
    }

    /// Whether the event makes it fail.
    pub fn fails_by(self, kind: EventKind, status: i32) -> bool {
        cell(self, kind, status) == Meaning::Fails
    }
}

/// The effect of `event` on a step that waits for its id.
pub(super) fn meaning(waiting: Waiting, event: &Event) -> Meaning {
    cell(waiting, event.kind(), event.status())
}

fn cell(waiting: Waiting, kind: EventKind, status: i32) -> Meaning {
    use Meaning::{Done, Fails, Nothing};
    use Waiting::{Accept, Addr, Confirmation, Connect, End, LookUp, Route};
    let done = if status == 0 { Done } else { Fails };
    match (kind, waiting) {
        (EventKind::AddrResolved, Addr) => done,
        (EventKind::AddrError, Addr | LookUp) => Fails,
        (EventKind::RouteResolved, Route) => done,
        (EventKind::RouteError, Route) => Fails,
        (EventKind::ConnectResponse, Connect { .. }) => done,
        (EventKind::Established, Connect { is_iwarp: true } | Accept | LookUp) => done,
        // The neighbour's address changed, so the resolved route is no longer valid.
        (EventKind::Unreachable, Route) => Fails,
        (
            EventKind::ConnectError | EventKind::Unreachable | EventKind::Rejected,
            Connect { .. } | LookUp | Accept | End | Confirmation,
        ) => Fails,
        (EventKind::Disconnected | EventKind::TimewaitExit, End | Confirmation) => Done,
        (EventKind::Disconnected | EventKind::TimewaitExit, Connect { .. } | Accept) => Fails,
        (EventKind::DeviceRemoval, _) => Fails,
        _ => Nothing,
    }
}
