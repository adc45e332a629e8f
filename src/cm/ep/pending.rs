//! Endpoints on a channel with a step in progress.

use super::{Ep, Rest};
use crate::cm::accept::{Accepted, NotAccepted};
use crate::cm::connect::{NotConnected, Pending};
use crate::cm::connection::Connection;
use crate::cm::datagram::{Found, NotFound, UdPeer};
use crate::cm::event::{Event, IdKey};
use crate::cm::id::CmId;
use crate::cm::listen::Request;
use crate::cm::param::{AcceptParam, ConnParam};
use crate::cm::private_data::LookupData;
use crate::cm::space::{Tcp, Udp};
use crate::cm::state::{
    Connecting, Established, Mode, OnChannel, Requested, RouteResolved, Unusable,
};
use crate::cm::waits::{Awaited, Progress, Waits};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::Refused;
use crate::terms::state::Rts;
use crate::terms::transport::Ud;

/// An endpoint on a channel with a step in progress: a connection that was requested ([`Pending`])
/// or accepted ([`Accepted`]), or on UDP a service lookup. [`advance`](Self::advance) processes the
/// event with the result. With the feature `tokio`, `AsyncEventChannel::finish` awaits it.
///
/// ```
/// use proverbs::{cm::*, loopback::Fabric, prelude::*};
/// use std::os::fd::AsRawFd;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let fabric = Fabric::new();
/// # let _device = fabric.open_device();
/// /// Passes each event to the step, until it is done.
/// fn finish<W: Waits>(channel: &EventChannel, mut begun: W, step: fn(W, &Event) -> Progress<W::Done, W, W::Failed>)
///     -> Result<W::Done, proverbs::Error>
/// {
///     loop {
///         match step(begun, &channel.wait()?) {
///             Progress::Done(done) => return Ok(done),
///             Progress::Waiting(waiting) => begun = waiting,
///             Progress::Failed(refused) => return Err(refused.error),
///         }
///     }
/// }
///
/// let (second, depth) = (Duration::from_secs(1), Depth { send: 8, recv: 8 });
/// let at = "10.0.0.1:7471".parse()?;
/// let (here, there) = (EventChannel::on(&fabric)?, EventChannel::on(&fabric)?); // or `EventChannel::new()`
/// let listening = there.create_id::<Tcp>()?.bind_addr(at)?.listen(8)?;
///
/// // An endpoint that was created synchronously moves to a channel, as in C.
/// let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr(at, second)?.resolve_route(second)?;
/// let ep = id.create_ep::<DefaultProfile>(None, depth)?.migrate_to(&here)?;
/// let asking = ep.connect(&ConnParam::default())?;
///
/// // The endpoint of a request on a channel is on it from the beginning.
/// let request = listening.request(there.wait()?).map_err(|_| "no request")?;
/// let mut ep = request.create_ep::<DefaultProfile>(None, depth)?;
/// let pool = ep.reg_msgs::<()>(8, 64)?;
/// ep.post_recv((), pool.take().ok_or("8 buffers")?)?; // before the peer can send
/// let answering = ep.accept(&AcceptParam::default())?;
/// let mut client = finish(&here, asking, EpPending::advance)?;
/// let mut server = finish(&there, answering, EpPending::advance)?;
///
/// client.qp.post_send(wr::Send::inline(b"hello"))?;
/// let descriptor = server.recv_channel().as_raw_fd();
/// let message = loop {
///     match server.try_recv_comp()? {
///         Some(Outcome::Received(received)) => break received,
///         Some(_) => return Err("a receive failed".into()),
///         None => println!("sleep on {descriptor}"), // and on other descriptors
///     }
/// };
/// assert_eq!(message.byte_len, 5);
///
/// // Disconnection is an event too.
/// let _client = client.disconnect()?;
/// let mut ended = finish(&there, server, Ep::advance)?;
/// ended.drain(|_buf| ())?;
/// # Ok(())
/// # }
/// ```
pub struct EpPending<W, P: Profile = DefaultProfile> {
    begun: W,
    rest: Rest<P>,
}

fn connected<P: Profile, M: Mode>(
    connection: Connection<P, M>,
    rest: Rest<P>,
) -> Ep<Tcp, Established, P, M> {
    let Connection { qp, id, peer, private_data } = connection;
    Rest { peer: Some(peer), private_data, ..rest }.with(qp, id)
}

fn not_connected<P: Profile, M: Mode>(
    object: NotConnected<P, M>,
    rest: Rest<P>,
) -> Ep<Tcp, Unusable, P, M> {
    match object {
        NotConnected::Unsent { id, qp } => rest.with(qp.give_up(), id.to()),
        NotConnected::Failed { id, qp } => rest.with(qp, id),
    }
}

fn not_accepted<P: Profile, M: Mode>(
    object: NotAccepted<P, M>,
    rest: Rest<P>,
) -> Ep<Tcp, Unusable, P, M> {
    match object {
        NotAccepted::Unanswered { request, qp } => rest.with(qp.give_up(), request.id.to()),
        NotAccepted::Failed { id, qp } => rest.with(qp, id),
    }
}

/// An id that looks up a service, and its queue pair.
type LookingUp<P, M> = (CmId<Udp, Connecting, M>, QueuePair<Ud, Rts, P>);

fn found<P: Profile, M: Mode>(
    (found, qp): (Found<M>, QueuePair<Ud, Rts, P>),
    rest: Rest<P>,
) -> (Ep<Udp, Established, P, M>, UdPeer) {
    let Found { id, peer, private_data } = found;
    (Rest { private_data, ..rest }.with(qp, id), peer)
}

fn not_found<P: Profile, M: Mode>(
    (object, qp): (NotFound<M>, QueuePair<Ud, Rts, P>),
    rest: Rest<P>,
) -> Ep<Udp, Unusable, P, M> {
    match object {
        NotFound::Unsent(id) => rest.with(qp, id.to()),
        NotFound::Failed(id) => rest.with(qp, id),
    }
}

impl<P: Profile, M: Mode> Waits for LookingUp<P, M> {
    type Done = (Found<M>, QueuePair<Ud, Rts, P>);
    type Failed = (NotFound<M>, QueuePair<Ud, Rts, P>);

    fn awaits(&self) -> Awaited<'_> {
        self.0.awaits()
    }

    fn done(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed> {
        self.0.done(event).beside(self.1)
    }

    fn give_up(self) -> Self::Failed {
        (self.0.give_up(), self.1)
    }
}

impl<W, P: Profile> EpPending<W, P>
where
    Self: Waits,
{
    /// The key by which events name its id.
    pub fn key(&self) -> IdKey {
        IdKey(self.awaits().core.id.key())
    }

    /// Processes an event. Events of other ids or of other kinds change nothing.
    ///
    /// [`Progress::Failed`] contains the endpoint, which you can [drain](Ep::drain), and the error
    /// that the call on a synchronous endpoint returns.
    pub fn advance(
        self,
        event: &Event,
    ) -> Progress<<Self as Waits>::Done, Self, <Self as Waits>::Failed> {
        self.step(event)
    }

    /// Stops the step. The peer receives no further answer.
    pub fn cancel(self) -> <Self as Waits>::Failed {
        self.give_up()
    }
}

/// The steps, and the endpoints that they return on success and on failure.
macro_rules! steps {
    ($($step:ty: $done:path => $ep:ty, $failed:path => $left:ty;)+) => {$(
        impl<P: Profile, M: Mode> Waits for EpPending<$step, P> {
            type Done = $ep;
            type Failed = $left;

            fn awaits(&self) -> Awaited<'_> {
                self.begun.awaits()
            }

            fn done(self, event: &Event) -> Progress<Self::Done, Self, Self::Failed> {
                let EpPending { begun, rest } = self;
                match begun.done(event) {
                    Progress::Done(done) => Progress::Done($done(done, rest)),
                    Progress::Waiting(begun) => Progress::Waiting(EpPending { begun, rest }),
                    Progress::Failed(refused) => {
                        Progress::Failed(refused.map(|object| $failed(object, rest)))
                    }
                }
            }

            fn give_up(self) -> Self::Failed {
                $failed(self.begun.give_up(), self.rest)
            }
        }
    )+};
}

steps! {
    Pending<P, M>: connected => Ep<Tcp, Established, P, M>, not_connected => Ep<Tcp, Unusable, P, M>;
    Accepted<P, M>: connected => Ep<Tcp, Established, P, M>, not_accepted => Ep<Tcp, Unusable, P, M>;
    LookingUp<P, M>: found => (Ep<Udp, Established, P, M>, UdPeer),
        not_found => Ep<Udp, Unusable, P, M>;
}

impl<W: Waits, P: Profile> EpPending<W, P> {
    fn of<F>(
        begun: Result<W, Refused<W::Failed>>,
        rest: Rest<P>,
        failed: impl FnOnce(W::Failed, Rest<P>) -> F,
    ) -> Result<Self, Refused<F>> {
        match begun {
            Ok(begun) => Ok(EpPending { begun, rest }),
            Err(refused) => Err(refused.map(|object| failed(object, rest))),
        }
    }
}

impl<P: Profile, M: Mode> Ep<Tcp, RouteResolved, P, M> {
    pub(super) fn begin(
        self,
        param: &ConnParam<P>,
    ) -> Result<EpPending<Pending<P, M>, P>, Refused<Ep<Tcp, Unusable, P, M>>> {
        let (qp, id, rest) = self.apart();
        EpPending::of(id.begin(qp, param), rest, not_connected)
    }
}

impl<P: Profile, M: Mode> Ep<Tcp, Requested, P, M> {
    pub(super) fn begin(
        self,
        param: &AcceptParam<P>,
    ) -> Result<EpPending<Accepted<P, M>, P>, Refused<Ep<Tcp, Unusable, P, M>>> {
        let (qp, id, mut rest) = self.apart();
        let private_data = std::mem::take(&mut rest.private_data);
        let request = Request { id, peer: rest.peer, private_data };
        EpPending::of(request.begin(qp, param), rest, not_accepted)
    }
}

impl<P: Profile, M: Mode> Ep<Udp, RouteResolved, P, M> {
    pub(super) fn begin(
        self,
        private_data: &LookupData,
    ) -> Result<EpPending<LookingUp<P, M>, P>, Refused<Ep<Udp, Unusable, P, M>>> {
        let (qp, id, rest) = self.apart();
        let begun = match id.begin(private_data) {
            Ok(id) => Ok((id, qp)),
            Err(refused) => Err(refused.map(|object| (object, qp))),
        };
        EpPending::of(begun, rest, not_found)
    }
}

impl<P: Profile> Ep<Tcp, RouteResolved, P, OnChannel> {
    /// Requests a connection (`rdma_connect`). The answer is an event for [`EpPending::advance`].
    ///
    /// # Errors
    /// As for [`CmId::connect`](crate::cm::CmId::connect) on a channel. The error contains the
    /// endpoint: [drain](Self::drain) it.
    pub fn connect(
        self,
        param: &ConnParam<P>,
    ) -> Result<EpPending<Pending<P>, P>, Refused<Ep<Tcp, Unusable, P, OnChannel>>> {
        self.begin(param)
    }
}

impl<P: Profile> Ep<Tcp, Requested, P, OnChannel> {
    /// Accepts the connection (`rdma_accept`). The confirmation is an event for
    /// [`EpPending::advance`].
    ///
    /// # Errors
    /// As for [`Request::accept`] on a channel. The error contains the endpoint:
    /// [drain](Self::drain) it. Its id can only be dropped, which notifies the peer.
    pub fn accept(
        self,
        param: &AcceptParam<P>,
    ) -> Result<EpPending<Accepted<P>, P>, Refused<Ep<Tcp, Unusable, P, OnChannel>>> {
        self.begin(param)
    }
}

impl<P: Profile> Ep<Udp, RouteResolved, P, OnChannel> {
    /// Requests the peer's queue pair number (`rdma_connect`). The answer is an event for
    /// [`EpPending::advance`], which returns the endpoint.
    ///
    /// # Errors
    /// As for [`CmId::connect`](crate::cm::CmId::connect) on UDP. The error contains the endpoint,
    /// which can only be dropped.
    pub fn connect(
        self,
        private_data: &LookupData,
    ) -> Result<
        EpPending<(CmId<Udp, Connecting, OnChannel>, QueuePair<Ud, Rts, P>), P>,
        Refused<Ep<Udp, Unusable, P, OnChannel>>,
    > {
        self.begin(private_data)
    }
}

impl_debug!([W, P: Profile] EpPending<W, P>, |_| "EpPending {{ .. }}");
