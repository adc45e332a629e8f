//! Awaiting connections on tokio.

#![allow(unsafe_code)] // one descriptor that outlives its registration

use std::collections::{BTreeMap, VecDeque};

use ::tokio::io::Interest;
use ::tokio::io::unix::AsyncFd;

use super::channel::EventChannel;
use super::event::{Event, EventKind, IdKey};
use super::id::CmId;
use super::listen::Request;
use super::space::{PortSpace, Tcp};
use super::state::{CmState, Listening, OnChannel};
use super::table::{Meaning, Waiting, meaning};
use super::waits::{Awaited, Progress, Waits};
use crate::allows::{Allows, call};
use crate::terms::error::{Error, Refused};
use crate::wait::{Turns, not_registered};

/// An event channel that can be awaited in a tokio runtime (feature `tokio`).
///
/// The calls of an id on a channel return at once. [`finish`](Self::finish) awaits their results.
/// Give each connection its own channel. Move each request from the listener's channel to its own
/// channel, so that several tasks can answer at the same time:
///
/// ```
/// use proverbs::{cm::*, loopback::Fabric, prelude::*};
/// use std::time::Duration;
///
/// # type Outcome<T> = Result<T, Box<dyn std::error::Error>>;
/// const SECOND: Duration = Duration::from_secs(1);
///
/// # fn end<S: HasDevice, M: Mode>(id: &CmId<Tcp, S, M>) -> Result<QueuePair<Rc, Init>, proverbs::Error> {
/// #     let (pd, cq) = (id.pd()?, id.context()?.create_cq(32)?);
/// #     id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })
/// # }
/// async fn ask(channel: EventChannel, at: std::net::SocketAddr) -> Outcome<Connection<DefaultProfile, OnChannel>> {
///     let mut channel = channel.into_async()?;
///     let id = channel.get_ref().create_id::<Tcp>()?;
///     let id = channel.finish(id.resolve_addr(at, SECOND)?).await?;
///     let id = channel.finish(id.resolve_route(SECOND)?).await?;
///     let qp = end(&id)?; // `create_qp`, and receives
///     let pending = id.connect(qp, &ConnParam::default())?;
///     Ok(tokio::time::timeout(SECOND, channel.finish(pending)).await??)
/// }
///
/// async fn answer(channel: EventChannel, request: Request<Tcp, OnChannel>) -> Outcome<()> {
///     let mut channel = channel.into_async()?;
///     let request = request.migrate_to(channel.get_ref())?;
///     let qp = end(&request.id)?;
///     let accepted = request.accept(qp, &AcceptParam::default())?;
///     let connection = channel.finish(accepted).await?;
///     // ... serve it ...
///     channel.disconnected(&connection.id).await?; // the peer disconnects
///     connection.disconnect()?;
///     Ok(())
/// }
///
/// # fn main() -> Outcome<()> {
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// # let fabric = Fabric::new();
/// # let _device = fabric.open_device();
/// # let at = "10.0.0.1:7471".parse()?;
/// let mut listener = EventChannel::on(&fabric)?.into_async()?; // or `EventChannel::new()`
/// let listening = listener.get_ref().create_id::<Tcp>()?.bind_addr(at)?.listen(8)?;
/// let client = async {
///     let connection = ask(EventChannel::on(&fabric)?, at).await?;
///     connection.disconnect()?;
///     Outcome::Ok(())
/// };
/// let server = async {
///     let request = listener.request(&listening).await?;
///     answer(EventChannel::on(&fabric)?, request).await // usually in a task of its own
/// };
/// tokio::try_join!(client, server)?;
/// # Ok(())
/// # })
/// # }
/// ```
///
/// Events that the current call does not use are buffered while their id exists. A later call that
/// waits for such an event finds it, and [`next`](Self::next) returns all of them, one by one.
/// Buffered events stay in this channel if their id moves to another channel.
///
/// The buffer of each id is bounded:
///
/// - One event of each kind and, for multicast events, of each group. Later ones are dropped. An
///   event that ends a connection is always kept and always found ([the table](super#events)).
/// - 1,024 requests of a listening id, the default backlog of librdmacm. Buffered requests do not
///   count against the backlog of [`listen`](CmId::listen). Further requests are rejected. Give a
///   listener a separate channel, on which only its [requests](Self::request) are awaited.
/// - 64 events that the program [wrote](CmId::write_cm_event). Further ones are dropped.
#[derive(Debug)]
pub struct AsyncEventChannel {
    fd: AsyncFd<EventChannel>,
    /// Events that no call has looked for yet, by their id and their place in `order`.
    kept: BTreeMap<(IdKey, u64), Event>,
    /// The order in which they came, and perhaps keys of events that are no longer kept.
    order: VecDeque<(IdKey, u64)>,
    turns: Turns,
}

/// How many requests are kept for a listening id.
const KEPT_REQUESTS: usize = 1024;

/// How many events that the program wrote are kept for an id.
const KEPT_USER: usize = 64;

impl EventChannel {
    /// Registers the channel with the current tokio runtime.
    ///
    /// # Errors
    /// [`Os`](crate::ErrorKind::Os) with the errno of `epoll_ctl` from the runtime; EEXIST if a
    /// clone of the channel is registered. The error contains the channel.
    ///
    /// # Panics
    /// Outside a tokio runtime, or in a runtime without IO (`Builder::enable_io`).
    pub fn into_async(self) -> Result<AsyncEventChannel, Refused<Self>> {
        // SAFETY: the channel keeps the descriptor open, and the result owns the channel.
        let fd = unsafe { AsyncFd::register_with_interest(self, Interest::READABLE) };
        let (fd, kept, order) = (fd.map_err(not_registered)?, BTreeMap::new(), VecDeque::new());
        Ok(AsyncEventChannel { fd, kept, order, turns: Turns::default() })
    }
}

impl AsyncEventChannel {
    /// The channel, to create ids on and to move requests to.
    pub fn get_ref(&self) -> &EventChannel {
        self.fd.get_ref()
    }

    /// Returns the next event. Waits **forever** if none comes: wrap it in a timeout. Buffered
    /// events come first, unless their id is gone.
    ///
    /// Cancel safe at any point: an event is taken only when it is returned.
    ///
    /// # Errors
    /// As for [`EventChannel::try_event`], and [`Os`](crate::ErrorKind::Os) of `epoll_ctl` if the
    /// runtime is shutting down.
    pub async fn next(&mut self) -> Result<Event, Error> {
        while let Some(key) = self.order.pop_front() {
            if let Some(event) = self.kept.remove(&key).filter(|event| !event.is_of_none()) {
                return Ok(event);
            }
        }
        self.take().await
    }

    /// Waits until a step is done: an address or a route is resolved, a connection is requested or
    /// accepted, a service is looked up, or the peer disconnects. Resolving an address or a route
    /// has its own timeout. The others wait **forever** if the peer does not answer: wrap them in
    /// a timeout.
    ///
    /// Dropping the future abandons the step and drops everything that was passed to it. A dropped
    /// queue pair returns the buffers of its receives.
    ///
    /// # Errors
    /// As for `advance` of the step, and as for [`next`](Self::next). The error contains everything
    /// that was passed to the step.
    pub async fn finish<W: Waits>(&mut self, begun: W) -> Result<W::Done, Refused<W::Failed>> {
        let Awaited { waiting: what, core, .. } = begun.awaits();
        let (mut at, mut waiting) = ((IdKey(core.id.key()), 0), begun);
        loop {
            let kept = self.kept.range(at..).next().filter(|(key, _)| key.0 == at.0);
            let next = kept.map(|(key, event)| (*key, meaning(what, event)));
            let step = match kept {
                Some((_, event)) => waiting.step(event),
                None => waiting.look(),
            };
            let ended = match (step, next) {
                (Progress::Done(done), _) => Ok(done),
                (Progress::Failed(refused), _) => Err(refused),
                (Progress::Waiting(still), Some(((id, place), _))) => {
                    (waiting, at) = (still, (id, place + 1));
                    continue;
                }
                (Progress::Waiting(still), None) => match self.take().await {
                    Ok(event) => {
                        waiting = still;
                        self.keep(event);
                        continue;
                    }
                    Err(error) => return Err(Refused::new(still.give_up(), error)),
                },
            };
            // An event that changes nothing stays, even if the end was recorded earlier.
            if let Some((key, Meaning::Done | Meaning::Fails)) = next {
                self.kept.remove(&key);
            }
            return ended;
        }
    }

    /// Returns the next request of `listening`, which must be on this channel. Waits **forever** if
    /// none comes.
    ///
    /// Cancel safe at any point: a request is taken only when it is returned.
    ///
    /// # Errors
    /// [`Cm`](crate::ErrorKind::Cm) if the device is being removed; later calls return it too.
    /// Otherwise as for [`next`](Self::next).
    pub async fn request<PS: PortSpace>(
        &mut self,
        listening: &CmId<PS, Listening, OnChannel>,
    ) -> Result<Request<PS, OnChannel>, Error> {
        let id = listening.key();
        loop {
            let mut own = self.kept.range((id, 0)..=(id, u64::MAX));
            let request = own.find(|(_, event)| event.kind() == EventKind::ConnectRequest);
            if let Some(event) = request.map(|(key, _)| *key).and_then(|key| self.kept.remove(&key))
            {
                // A request without a device cannot be answered, and is dropped.
                if let Ok(request) = listening.request(event) {
                    return Ok(request);
                }
            } else {
                listening.core.removal("rdma_get_cm_event")?;
                let event = self.take().await?;
                self.keep(event);
            }
        }
    }

    /// Waits until the connection has ended: the peer disconnected, or confirmed this side's
    /// [`disconnect`](super::Connection::disconnect). Waits **forever** if it does not end. The id
    /// must be on this channel. Later calls return at once.
    ///
    /// Cancel safe at any point.
    ///
    /// # Errors
    /// [`Cm`](crate::ErrorKind::Cm) if the connection broke or the device is being removed. The
    /// error names the event, such as UNREACHABLE, and later calls return it at once. Otherwise as
    /// for [`next`](Self::next).
    pub async fn disconnected<S: CmState>(
        &mut self,
        id: &CmId<Tcp, S, OnChannel>,
    ) -> Result<(), Error>
    where
        CmId<Tcp, S, OnChannel>: Allows<call::Disconnected>,
    {
        // Events are recorded in the id when they are taken.
        while !id.core.id.seen().is_disconnected() {
            if let Some(error) = id.core.end("rdma_get_cm_event", Waiting::End) {
                return Err(error);
            }
            let event = self.take().await?;
            self.keep(event);
        }
        Ok(())
    }

    /// Keeps an event for a later call that looks for it. Before growing the buffer, removes the
    /// events of ids that no longer exist.
    fn keep(&mut self, event: Event) {
        if self.order.len() == self.order.capacity() {
            self.kept.retain(|_, event| !event.is_of_none());
            self.order.retain(|key| self.kept.contains_key(key));
            self.order.reserve(self.order.len() + 1);
        }
        let (id, kind, group) = (event.id(), event.kind(), event.group());
        let most = match kind {
            // A request that is dropped is rejected.
            EventKind::ConnectRequest => KEPT_REQUESTS,
            EventKind::User => KEPT_USER,
            // A second one adds nothing. The first event that ends a connection is the reason.
            _ => 1,
        };
        let own = self.kept.range((id, 0)..=(id, u64::MAX)).map(|(_, kept)| kept);
        if own.filter(|kept| (kept.kind(), kept.group()) == (kind, group)).count() < most {
            let key = (id, self.order.back().map_or(0, |last| last.1 + 1));
            self.order.push_back(key);
            self.kept.insert(key, event);
        }
    }

    /// The next event of the descriptor. All awaits come before it is taken.
    async fn take(&mut self) -> Result<Event, Error> {
        self.turns.take(&mut self.fd, |channel| channel.try_event()).await
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use super::*;
    use crate::loopback::Fabric;

    /// However many events arrive for an id, few are kept, and the end is among them.
    #[test]
    #[cfg_attr(miri, ignore = "epoll(7)")]
    fn what_is_kept_for_an_id_is_bounded() {
        let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let crate::cm::ConnectedPair { fabric, a, b: _b, .. } =
                crate::cm::loopback_pair().unwrap();
            let mut channel = EventChannel::on(&fabric).unwrap().into_async().unwrap();
            let a = a.migrate_to(channel.get_ref()).unwrap();
            for _ in 0..500 {
                for kind in [EventKind::AddrChange, EventKind::RouteError] {
                    assert!(fabric.raise_cm(&a.id, kind, -1));
                }
                a.id.write_cm_event(0, 7).unwrap();
            }
            assert!(fabric.raise_cm(&a.id, EventKind::Unreachable, -110));
            assert!(fabric.raise_cm(&a.id, EventKind::Rejected, 28));
            let ended = channel.disconnected(&a.id).await.unwrap_err();
            let kind = crate::ErrorKind::Cm { event: "RDMA_CM_EVENT_UNREACHABLE", status: -110 };
            assert_eq!(*ended.kind(), kind);
            assert_eq!(channel.kept.len(), 2 + KEPT_USER + 1, "with the event of the end");
            let kept = |kind| channel.kept.values().any(|event| event.kind() == kind);
            assert!(kept(EventKind::Unreachable));
        });
    }

    /// A channel on which ids come and go keeps the events of the ids that exist.
    ///
    /// Events of ids that are gone do not accumulate in a channel.
    #[test]
    #[cfg_attr(miri, ignore = "epoll(7)")]
    fn what_nobody_can_ask_for_is_not_kept() {
        let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let fabric = Fabric::new();
            let device = fabric.open_device();
            let at = std::net::SocketAddr::new(fabric.ip_of(&device).unwrap(), 7471);
            let mut channel = EventChannel::on(&fabric).unwrap().into_async().unwrap();
            let create = |channel: &AsyncEventChannel| channel.get_ref().create_id::<Tcp>();
            let stays = create(&channel).unwrap();
            stays.write_cm_event(0, 7).unwrap();
            for _ in 0..500 {
                let goes = create(&channel).unwrap();
                goes.write_cm_event(0, 1).unwrap();
                let id = create(&channel).unwrap().resolve_addr(at, std::time::Duration::ZERO);
                drop(channel.finish(id.unwrap()).await.unwrap());
            }
            assert!(channel.kept.len() < 10, "{} are kept", channel.kept.len());
            assert!(channel.order.capacity() < 40, "room for {}", channel.order.capacity());
            assert_eq!(channel.next().await.unwrap().user_arg(), Some(7));
            stays.write_cm_event(0, 8).unwrap();
            assert_eq!(channel.next().await.unwrap().user_arg(), Some(8), "others are of none");
        });
    }
}
