//! Steps of endpoints on a channel that are under way.

use std::fmt;

use super::{Ep, Rest};
use crate::cm::accept::{Accepted, NotAccepted};
use crate::cm::connect::{NotConnected, Pending};
use crate::cm::connection::Connection;
use crate::cm::datagram::{Found, NotFound, UdPeer};
use crate::cm::event::{Event, IdKey};
use crate::cm::id::{CmId, Step, Waits};
use crate::cm::listen::Request;
use crate::cm::param::{AcceptParam, ConnParam};
use crate::cm::private_data::LookupData;
use crate::cm::space::{Tcp, Udp};
use crate::cm::state::{Connecting, Established, OnChannel, Requested, RouteResolved, Spent};
use crate::profile::{DefaultProfile, Profile};
use crate::qp::QueuePair;
use crate::terms::error::Refused;
use crate::terms::state::Rts;
use crate::terms::transport::Ud;

/// An endpoint on a channel whose step is under way: a connection that is asked for
/// ([`Pending`]) or accepted ([`Accepted`]), or on UDP a service that is looked up.
/// [`advance`](Self::advance) processes the event with the result, and with the feature `tokio`
/// `AsyncEventChannel::finish` awaits it.
///
/// ```
/// use proverbs::{cm::*, loopback::Fabric, prelude::*};
/// use std::os::fd::AsRawFd;
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let fabric = Fabric::new();
/// # let _device = fabric.open_device();
/// /// Gives each event to what waits, until it is done.
/// fn finish<W: Waits>(channel: &EventChannel, mut begun: W, step: fn(W, &Event) -> Step<W::Done, W, W::Failed>)
///     -> Result<W::Done, proverbs::Error>
/// {
///     loop {
///         match step(begun, &channel.wait()?) {
///             Step::Done(done) => return Ok(done),
///             Step::Waiting(waiting) => begun = waiting,
///             Step::Failed(refused) => return Err(refused.error),
///         }
///     }
/// }
///
/// let (second, depth) = (Duration::from_secs(1), Depth { send: 8, recv: 8 });
/// let at = "10.0.0.1:7471".parse()?;
/// let (here, there) = (EventChannel::on(&fabric)?, EventChannel::on(&fabric)?); // or `EventChannel::new()`
/// let listening = there.create_id::<Tcp>()?.bind_addr(at)?.listen(8)?;
///
/// // An endpoint that was made by calls that wait moves to a channel, as in C.
/// let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr(at, second)?.resolve_route(second)?;
/// let ep = id.create_ep::<DefaultProfile>(None, depth)?.migrate_to(&here)?;
/// let asking = ep.connect(&ConnParam::default())?;
///
/// // One of a request on a channel is there from the beginning.
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
///         None => println!("sleep on {descriptor}"), // and on others
///     }
/// };
/// assert_eq!(message.byte_len, 5);
///
/// // The end of the connection is an event too.
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

/// A step of an endpoint that may be under way: in an [`EpPending`].
///
/// ```
/// use proverbs::{cm::*, prelude::*};
///
/// /// The endpoints whose steps are under way, of either kind.
/// fn key<W: PendingStep<DefaultProfile>>(pending: &EpPending<W>) -> IdKey {
///     pending.key()
/// }
/// let _ = key::<Pending>;
/// let _ = key::<Accepted>;
/// ```
pub trait PendingStep<P: Profile>: sealed::Step<P> {
    /// The endpoint, once the step is done; on UDP with the service that was found.
    type Ep;
    /// The endpoint, of no further use, if it fails.
    type Failed;
}

mod sealed {
    use super::*;

    pub trait Step<P: Profile>: Sized {
        fn key(&self) -> IdKey;
    }
}

impl<P: Profile> sealed::Step<P> for Pending<P> {
    fn key(&self) -> IdKey {
        self.id().key()
    }
}

impl<P: Profile> PendingStep<P> for Pending<P> {
    type Ep = Ep<Tcp, Established, P, OnChannel>;
    type Failed = Ep<Tcp, Spent, P, OnChannel>;
}

impl<P: Profile> sealed::Step<P> for Accepted<P> {
    fn key(&self) -> IdKey {
        self.id().key()
    }
}

impl<P: Profile> PendingStep<P> for Accepted<P> {
    type Ep = Ep<Tcp, Established, P, OnChannel>;
    type Failed = Ep<Tcp, Spent, P, OnChannel>;
}

/// An id that looks a service up, and its queue pair.
type LookingUp<P> = (CmId<Udp, Connecting, OnChannel>, QueuePair<Ud, Rts, P>);

impl<P: Profile> sealed::Step<P> for LookingUp<P> {
    fn key(&self) -> IdKey {
        self.0.key()
    }
}

impl<P: Profile> PendingStep<P> for LookingUp<P> {
    type Ep = (Ep<Udp, Established, P, OnChannel>, UdPeer);
    type Failed = Ep<Udp, Spent, P, OnChannel>;
}

impl<W: PendingStep<P>, P: Profile> EpPending<W, P> {
    /// The key by which events name its id.
    pub fn key(&self) -> IdKey {
        self.begun.key()
    }

    /// Processes an event. One of another id, or of another kind, changes nothing.
    ///
    /// [`Step::Failed`] has the endpoint, to be [drained](Ep::drain), and the error that a
    /// synchronous endpoint's call returns.
    pub fn advance(
        self,
        event: &Event,
    ) -> Step<<Self as Waits>::Done, Self, <Self as Waits>::Failed>
    where
        Self: Waits,
    {
        self.step(event)
    }

    /// Gives up the step: the peer gets no further answer.
    pub fn cancel(self) -> <Self as Waits>::Failed
    where
        Self: Waits,
    {
        self.give_up()
    }
}

fn connected<P: Profile>(
    connection: Connection<P, OnChannel>,
    mut rest: Rest<P>,
) -> Ep<Tcp, Established, P, OnChannel> {
    let Connection { qp, id, peer, private_data } = connection;
    (rest.peer, rest.private_data) = (Some(peer), private_data);
    Ep::<Tcp, Spent, P, OnChannel>::turn(rest, qp, id)
}

fn not_connected<P: Profile>(
    object: NotConnected<P, OnChannel>,
    rest: Rest<P>,
) -> Ep<Tcp, Spent, P, OnChannel> {
    let (qp, id) = match object {
        NotConnected::Unsent { id, qp } => (qp.give_up(), id.to()),
        NotConnected::Failed { id, qp } => (qp, id),
    };
    Ep::<Tcp, Spent, P, OnChannel>::turn(rest, qp, id)
}

fn not_accepted<P: Profile>(
    object: NotAccepted<P, OnChannel>,
    rest: Rest<P>,
) -> Ep<Tcp, Spent, P, OnChannel> {
    let (qp, id) = match object {
        NotAccepted::Unanswered { request, qp } => (qp.give_up(), request.id.to()),
        NotAccepted::Failed { id, qp } => (qp, id),
    };
    Ep::<Tcp, Spent, P, OnChannel>::turn(rest, qp, id)
}

/// A step of an endpoint is that of its id; the rest waits beside it.
macro_rules! waits {
    ($begun:ty, $done:expr, $failed:expr) => {
        impl<P: Profile> Waits for EpPending<$begun, P> {
            type Done = <$begun as PendingStep<P>>::Ep;
            type Failed = <$begun as PendingStep<P>>::Failed;

            fn step(self, event: &Event) -> Step<Self::Done, Self, Self::Failed> {
                let EpPending { begun, rest } = self;
                match begun.step(event) {
                    Step::Done(done) => Step::Done($done(done, rest)),
                    Step::Waiting(begun) => Step::Waiting(EpPending { begun, rest }),
                    Step::Failed(refused) => {
                        Step::Failed(refused.map(|object| $failed(object, rest)))
                    }
                }
            }

            fn look(self) -> Step<Self::Done, Self, Self::Failed> {
                let EpPending { begun, rest } = self;
                match begun.look() {
                    Step::Done(done) => Step::Done($done(done, rest)),
                    Step::Waiting(begun) => Step::Waiting(EpPending { begun, rest }),
                    Step::Failed(refused) => {
                        Step::Failed(refused.map(|object| $failed(object, rest)))
                    }
                }
            }

            fn give_up(self) -> Self::Failed {
                $failed(self.begun.give_up(), self.rest)
            }
        }
    };
}

waits!(Pending<P>, connected, not_connected);
waits!(Accepted<P>, connected, not_accepted);

impl<P: Profile> Waits for EpPending<LookingUp<P>, P> {
    type Done = <LookingUp<P> as PendingStep<P>>::Ep;
    type Failed = <LookingUp<P> as PendingStep<P>>::Failed;

    fn step(self, event: &Event) -> Step<Self::Done, Self, Self::Failed> {
        self.by(|id| id.step(event))
    }

    fn look(self) -> Step<Self::Done, Self, Self::Failed> {
        self.by(Waits::look)
    }

    fn give_up(self) -> Self::Failed {
        let EpPending { begun: (id, qp), rest } = self;
        not_found(id.give_up(), qp, rest)
    }
}

type Looked = Step<Found<OnChannel>, CmId<Udp, Connecting, OnChannel>, NotFound<OnChannel>>;

impl<P: Profile> EpPending<LookingUp<P>, P> {
    fn by(
        self,
        step: impl FnOnce(CmId<Udp, Connecting, OnChannel>) -> Looked,
    ) -> Step<<Self as Waits>::Done, Self, <Self as Waits>::Failed> {
        let EpPending { begun: (id, qp), mut rest } = self;
        match step(id) {
            Step::Done(Found { id, peer, private_data }) => {
                rest.private_data = private_data;
                Step::Done((Ep::<Udp, Spent, P, OnChannel>::turn(rest, qp, id), peer))
            }
            Step::Waiting(id) => Step::Waiting(EpPending { begun: (id, qp), rest }),
            Step::Failed(refused) => Step::Failed(refused.map(|id| not_found(id, qp, rest))),
        }
    }
}

fn not_found<P: Profile>(
    object: NotFound<OnChannel>,
    qp: QueuePair<Ud, Rts, P>,
    rest: Rest<P>,
) -> Ep<Udp, Spent, P, OnChannel> {
    let id = match object {
        NotFound::Unsent(id) => id.to(),
        NotFound::Failed(id) => id,
    };
    Ep::<Udp, Spent, P, OnChannel>::turn(rest, qp, id)
}

impl<P: Profile> Ep<Tcp, RouteResolved, P, OnChannel> {
    /// Asks the peer for a connection (`rdma_connect`). The answer is an event for
    /// [`EpPending::advance`].
    ///
    /// # Errors
    /// The endpoint is given back, to be [drained](Self::drain), with the error of
    /// [`CmId::connect`](crate::cm::CmId::connect) on a channel.
    pub fn connect(
        self,
        param: &ConnParam<P>,
    ) -> Result<EpPending<Pending<P>, P>, Refused<Ep<Tcp, Spent, P, OnChannel>>> {
        let (qp, id, rest) = self.apart();
        match id.connect(qp, param) {
            Ok(begun) => Ok(EpPending { begun, rest }),
            Err(refused) => Err(refused.map(|object| not_connected(object, rest))),
        }
    }
}

impl<P: Profile> Ep<Tcp, Requested, P, OnChannel> {
    /// Accepts the connection (`rdma_accept`). The confirmation is an event for
    /// [`EpPending::advance`].
    ///
    /// # Errors
    /// The endpoint is given back, to be [drained](Self::drain), with the error of
    /// [`Request::accept`] on a channel. Its id is of no further use; dropping it notifies the
    /// peer.
    pub fn accept(
        self,
        param: &AcceptParam<P>,
    ) -> Result<EpPending<Accepted<P>, P>, Refused<Ep<Tcp, Spent, P, OnChannel>>> {
        let (qp, id, mut rest) = self.apart();
        let private_data = std::mem::take(&mut rest.private_data);
        let request = Request { id, peer: rest.peer, private_data };
        match request.accept(qp, param) {
            Ok(begun) => Ok(EpPending { begun, rest }),
            Err(refused) => Err(refused.map(|object| not_accepted(object, rest))),
        }
    }
}

impl<P: Profile> Ep<Udp, RouteResolved, P, OnChannel> {
    /// Asks the peer for its queue pair (`rdma_connect`). The answer is an event for
    /// [`EpPending::advance`], and comes with the endpoint.
    ///
    /// # Errors
    /// The endpoint is given back, of no further use, with the error of
    /// [`CmId::connect`](crate::cm::CmId::connect) on UDP.
    pub fn connect(
        self,
        private_data: &LookupData,
    ) -> Result<
        EpPending<(CmId<Udp, Connecting, OnChannel>, QueuePair<Ud, Rts, P>), P>,
        Refused<Ep<Udp, Spent, P, OnChannel>>,
    > {
        let (qp, id, rest) = self.apart();
        match id.connect(private_data) {
            Ok(id) => Ok(EpPending { begun: (id, qp), rest }),
            Err(refused) => Err(refused.map(|object| not_found(object, qp, rest))),
        }
    }
}

impl<W, P: Profile> fmt::Debug for EpPending<W, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpPending").finish_non_exhaustive()
    }
}
