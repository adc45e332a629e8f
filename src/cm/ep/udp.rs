//! Datagram endpoints.

use std::time::Duration;

use super::Ep;
use crate::cm::datagram::UdPeer;
use crate::cm::listen::Request;
use crate::cm::private_data::{LookupData, ReplyData};
use crate::cm::space::Udp;
use crate::cm::state::{Established, Mode, Requested, RouteResolved, Unusable};
use crate::cm::waits::finish;
use crate::profile::Profile;
use crate::terms::error::Refused;

impl<P: Profile> Ep<Udp, RouteResolved, P> {
    /// Requests the peer's queue pair number, within `timeout` (`rdma_connect`). To send to the
    /// peer, create an address handle from its [`vector`](UdPeer::vector).
    ///
    /// # Errors
    /// As for [`CmId::connect`](crate::cm::CmId::connect) on UDP. The error contains the endpoint,
    /// which can only be dropped.
    pub fn connect(
        self,
        private_data: &LookupData,
        timeout: Duration,
    ) -> Result<(Ep<Udp, Established, P>, UdPeer), Refused<Ep<Udp, Unusable, P>>> {
        finish(self.begin(private_data)?, timeout)
    }
}

impl<P: Profile, M: Mode> Ep<Udp, Requested, P, M> {
    /// Sends the number of this endpoint's queue pair to the peer (`rdma_accept`).
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `rdma_accept`. The error contains the
    /// endpoint, unanswered.
    ///
    /// ```no_run
    /// # use proverbs::{cm::*, prelude::*};
    /// # fn example(listening: &CmId<Udp, Listening>) -> Result<(), Box<dyn std::error::Error>> {
    /// let depth = Depth { send: 8, recv: 8 };
    /// let mut ep = listening.get_request()?.create_ep::<DefaultProfile>(None, depth)?;
    /// let pool = ep.reg_msgs::<()>(8, 256)?;
    /// ep.post_recv((), pool.take().expect("8 buffers"))?;
    /// let mut ep = ep.accept(&ReplyData::none())?;
    /// if let Outcome::Datagram(message) = ep.get_recv_comp()? {
    ///     println!("{}", message.payload().escape_ascii());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn accept(
        self,
        private_data: &ReplyData,
    ) -> Result<Ep<Udp, Established, P, M>, Refused<Self>> {
        let (qp, id, mut rest) = self.apart();
        let came = std::mem::take(&mut rest.private_data);
        let request = Request { id, peer: None, private_data: came };
        match request.accept(&qp, private_data) {
            Ok(id) => Ok(rest.with(qp, id)),
            Err(refused) => Err(refused.map(|request| {
                rest.private_data = request.private_data;
                rest.with(qp, request.id)
            })),
        }
    }
}
