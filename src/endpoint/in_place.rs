//! Connecting a queue pair in place.

use std::time::Duration;

use super::Endpoint;
use super::connect::{RcConnector, meet, offer};
use super::exchange::{agree, refuse};
use super::stream::Timed;
use super::unconnected::ConnectError;
use crate::profile::Profile;
use crate::qp::AnyQueuePair;
use crate::terms::error::Error;
use crate::terms::state::Init;
use crate::terms::transport::Rc;

impl<'q, P: Profile> RcConnector<P, &'q mut AnyQueuePair<Rc, P>> {
    /// Like [`new`](RcConnector::new), for a queue pair in INIT that stays where it is, such as in
    /// a field of a struct. The connector borrows the queue pair, so post receives first.
    ///
    /// ```
    /// use std::{os::unix::net::UnixStream, time::Duration};
    ///
    /// use proverbs::{endpoint::{Endpoint, RcConnector}, loopback::Fabric, prelude::*};
    /// use proverbs::{qp::AnyQueuePair, state::QpState};
    ///
    /// # type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;
    /// struct Link {
    ///     qp: AnyQueuePair<Rc>,
    ///     cq: CompletionQueue,
    ///     gid: u8, // its index
    /// }
    ///
    /// impl Link {
    ///     /// Connects, also after an earlier connection.
    ///     fn connect(&mut self, stream: &mut UnixStream) -> Result<Endpoint> {
    ///         self.qp.reset()?;
    ///         self.qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() })?;
    ///         let connector = RcConnector::in_place(&mut self.qp, Some(self.gid))?;
    ///         Ok(connector.connect_in_place(stream, Duration::from_secs(1))?)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<()> {
    /// let fabric = Fabric::new();
    /// let (mut here, mut there) = UnixStream::pair()?;
    /// let link = |context: Context| -> Result<Link> {
    ///     let (pd, cq) = (context.alloc_pd()?, context.create_cq(16)?);
    ///     let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 4, recv: 4 })?;
    ///     Ok(Link { qp: qp.into(), cq, gid: context.roce_v2_gid(1)?.index() })
    /// };
    /// let (mut a, mut b) = (link(fabric.open_device())?, link(fabric.open_device())?);
    /// let other = std::thread::spawn(move || -> Result<Link> {
    ///     b.connect(&mut there)?;
    ///     b.connect(&mut there)?; // and again
    ///     Ok(b)
    /// });
    /// a.connect(&mut here)?;
    /// let peer = a.connect(&mut here)?;
    /// assert_eq!(a.qp.state(), QpState::Rts);
    /// let b = other.join().unwrap()?;
    /// assert_eq!(peer.qpn().get(), b.qp.qp_num());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Os`](crate::ErrorKind::Os) with EINVAL if the queue pair is not in INIT;
    /// otherwise as for [`Endpoint::of_rc`].
    pub fn in_place(qp: &'q mut AnyQueuePair<Rc, P>, gid_index: Option<u8>) -> Result<Self, Error> {
        let state = qp.state();
        let Some(init) = qp.as_state::<Init>() else {
            let asked =
                format!("cannot connect a queue pair in {state}, only in INIT: reset it first");
            return Err(Error::os("ibv_modify_qp", libc::EINVAL, asked));
        };
        let mine = offer(init, gid_index)?;
        let (context, port) = (init.context(), init.core.port);
        let keep = |qp: &mut &mut AnyQueuePair<Rc, P>, offer| {
            if let Some(init) = qp.as_state::<Init>() {
                init.core.offered = Some(offer);
            }
        };
        Ok(Self::around(qp, mine, gid_index, context, port, keep))
    }

    /// Like [`connect`](RcConnector::connect), but leaves the queue pair in place, in RTS. Returns
    /// the peer's endpoint.
    ///
    /// # Errors
    /// As for [`connect`](RcConnector::connect). The queue pair stays in the state that it reached
    /// ([`AnyQueuePair::state`]). To try again, call [`AnyQueuePair::reset`].
    pub fn connect_in_place<S: Timed + ?Sized>(
        self,
        stream: &mut S,
        timeout: Duration,
    ) -> Result<Endpoint, ConnectError> {
        let (mut stream, peer) = meet(&self.mine, stream, timeout)?;
        self.connect_in_place_to(&peer).inspect_err(|_| refuse(&mut stream))?;
        agree(&mut stream, timeout)?;
        Ok(peer)
    }

    /// Like [`connect_to`](RcConnector::connect_to), but leaves the queue pair in place, in RTS.
    ///
    /// # Errors
    /// As for [`connect_to`](RcConnector::connect_to). The queue pair stays in the state that it
    /// reached ([`AnyQueuePair::state`]). To try again, call [`AnyQueuePair::reset`].
    pub fn connect_in_place_to(self, peer: &Endpoint) -> Result<(), ConnectError> {
        let (rtr, rts) = self.plan(peer)?;
        self.qp.modify(rtr)?;
        Ok(self.qp.modify(rts)?)
    }
}
