//! Vendor options of rdma_cm connections: `rdma_set_local_ece`, `rdma_get_remote_ece`,
//! `rdma_reject_ece`.

use super::id::CmId;
use super::listen::Request;
use super::private_data::RejectData;
use super::space::Tcp;
use super::state::{Accepting, CmState, Established, HasDevice, Mode, Requested};
use crate::allows::{Allows, call};
use crate::ext::tuning::{Ece, TakesEce};
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::sys::cm::Id;
use crate::sys::tuning::ibv_ece;
use crate::terms::error::{Error, ErrorKind, Refused};
use crate::terms::state::State;
use crate::terms::transport::Rc;

/// States after a message from the peer, which may contain options of the connection
/// ([R23.1](crate::guide::rules#r23-1)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an id in state `{Self}` has not received anything from its peer",
    label = "this id is in state `{Self}`",
    note = "the peer's options come with its request or reply: query the id of a `Request` or of a `Connection`"
)]
pub trait HeardPeer: HasDevice {}
impl HeardPeer for Requested {}
impl HeardPeer for Accepting {}
impl HeardPeer for Established {}

allows! { [S: HeardPeer, M: Mode] CmId<Tcp, S, M>: RemoteEce; }

impl<S: CmState, M: Mode> CmId<Tcp, S, M> {
    /// The options that the peer's request offered, or that its answer accepted
    /// (`rdma_get_remote_ece`). `None` if the peer sent no options, for example because `ece` is
    /// false in its [`ConnParam`](super::ConnParam).
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_get_remote_ece`.
    ///
    /// ```
    /// use proverbs::{cm::*, loopback::Fabric, prelude::*};
    /// use std::time::Duration;
    ///
    /// # fn end<S: HasDevice>(id: &CmId<Tcp, S>) -> Result<QueuePair<Rc, Init>, proverbs::Error> {
    /// #     let (pd, cq) = (id.pd()?, id.context()?.create_cq(32)?);
    /// #     id.create_qp::<DefaultProfile>(&pd, &cq, &cq, Depth { send: 8, recv: 8 })
    /// # }
    /// let second = Duration::from_secs(1);
    /// let fabric = Fabric::new();
    /// let _device = fabric.open_device();
    /// let at = "10.0.0.1:7471".parse()?;
    /// let listening = CmId::<Tcp, _>::on(&fabric)?.bind_addr(at)?.listen(8)?;
    /// std::thread::scope(|scope| {
    ///     let active = scope.spawn(|| {
    ///         let id = CmId::<Tcp, _>::on(&fabric)?.resolve_addr(at, second)?.resolve_route(second)?;
    ///         let qp = end(&id)?; // `create_qp`
    ///         let connection = id.connect(qp, &ConnParam { ece: true, ..Default::default() }, second)?;
    ///         assert_eq!(connection.id.remote_ece()?, Some(connection.qp.query_ece()?));
    ///         Ok::<(), proverbs::Error>(())
    ///     });
    ///     let request = listening.get_request()?;
    ///     println!("the peer offers {:?}", request.id.remote_ece()?);
    ///     let qp = end(&request.id)?;
    ///     let param = AcceptParam { ece: true, ..Default::default() };
    ///     match request.accept(qp, &param, second).map_err(Refused::into_parts) {
    ///         Ok(connection) => println!("{:?} are taken", connection.qp.query_ece()?),
    ///         Err((NotAccepted::Unanswered { request, .. }, error)) => {
    ///             println!("{error}: options of another vendor's device");
    ///             request.reject_ece(&RejectData::of(b"without options, please"))?;
    ///         }
    ///         Err((_, error)) => return Err(error),
    ///     }
    ///     active.join().unwrap()
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "rdma_get_remote_ece")]
    pub fn remote_ece(&self) -> Result<Option<Ece>, Error>
    where
        Self: Allows<call::RemoteEce>,
    {
        heard(&self.core.id)
    }
}

impl<M: Mode> Request<Tcp, M> {
    /// Rejects the connection because of the options that the peer offers (`rdma_reject_ece`). The
    /// peer receives reason 35 of IBA 12.6.7.2, and may try again without options.
    ///
    /// # Errors
    /// [`Os`](ErrorKind::Os) with the errno of `rdma_reject_ece`; ENOSYS if the library is older
    /// than rdma-core 31. The error contains the request, unanswered.
    #[doc(alias = "rdma_reject_ece")]
    pub fn reject_ece(mut self, private_data: &RejectData) -> Result<(), Refused<Self>> {
        let rejected = self.id.core.id.reject_ece(private_data);
        rejected.map_err(|errno| Refused::new(self, Error::os("rdma_reject_ece", errno, "")))
    }
}

fn heard(id: &Id) -> Result<Option<Ece>, Error> {
    let ece = id.remote_ece().map_err(|errno| Error::os("rdma_get_remote_ece", errno, ""))?;
    Ok(ece.map(|ibv_ece { vendor_id, options, .. }| Ece { vendor_id, options }))
}

/// Whether the device or the library does not support options, so that the connection is made
/// without.
fn has_none(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Os { errno: libc::EOPNOTSUPP | libc::ENOSYS, .. })
}

/// Adds the options of the queue pair, if any, to the next message to the peer.
pub(super) fn tell<S: State, P: Profile>(
    id: &mut Id,
    qp: &QueuePair<Rc, S, P>,
) -> Result<(), Error> {
    let Ece { vendor_id, options } = match qp.query_ece() {
        // No vendor: there are no options to send.
        Ok(Ece { vendor_id: 0, .. }) => return Ok(()),
        Ok(ece) => ece,
        Err(error) if has_none(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    match id.set_local_ece(ibv_ece { vendor_id, options, comp_mask: 0 }) {
        Ok(()) | Err(libc::ENOSYS) => Ok(()),
        Err(errno) => {
            let asked = format!("vendor {vendor_id:#x}, options {options:#x}");
            Err(Error::os("rdma_set_local_ece", errno, asked))
        }
    }
}

/// Sets the options that the peer sent, if any, on the queue pair. Returns whether it did.
pub(super) fn take<S: TakesEce, P: Profile>(
    id: &Id,
    qp: &mut QueuePair<Rc, S, P>,
) -> Result<bool, Error> {
    let Some(ece) = heard(id)? else { return Ok(false) };
    match qp.set_ece(ece) {
        Ok(()) => Ok(true),
        Err(error) if has_none(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, feature = "loopback"))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cm::state::{Listening, OnChannel, RouteResolved};
    use crate::cm::{
        AcceptParam, ConnParam, Event, EventChannel, NotAccepted, NotConnected, Progress,
    };
    use crate::completion::queue::CompletionQueue;
    use crate::device::context::Context;
    use crate::device::pd::ProtectionDomain;
    use crate::loopback::{Fabric, Personality, World};
    use crate::profile::DefaultProfile;
    use crate::qp::Depth;
    use crate::terms::state::Init;

    const THEIRS: ibv_ece = ibv_ece { vendor_id: 0x15b3, options: 1, comp_mask: 0 };

    fn done<D, W, F>(step: Progress<D, W, F>) -> D {
        match step {
            Progress::Done(done) => done,
            _ => panic!("done when the call returns"),
        }
    }

    /// A device, with an id that listens on it.
    struct Ground {
        fabric: Fabric,
        device: Context,
        pd: ProtectionDomain,
        cq: CompletionQueue,
        channel: EventChannel,
        listening: CmId<Tcp, Listening, OnChannel>,
    }

    impl Ground {
        fn new() -> Ground {
            Ground::with(Personality::Plain)
        }

        fn with(personality: Personality) -> Ground {
            let fabric = Fabric::with(World::ipv4().personality(personality));
            let device = fabric.open_device();
            let (pd, cq) = (device.alloc_pd().unwrap(), device.create_cq(64).unwrap());
            let channel = EventChannel::on(&fabric).unwrap();
            let listening = channel.create_id::<Tcp>().unwrap();
            let at = "10.0.0.1:0".parse().unwrap();
            let listening = listening.bind_addr(at).unwrap().listen(1).unwrap();
            Ground { fabric, device, pd, cq, channel, listening }
        }

        fn event(&self) -> Event {
            self.channel.try_event().unwrap().unwrap()
        }

        /// An id with a resolved route to the listening one, and its queue pair.
        fn routed(&self) -> (CmId<Tcp, RouteResolved, OnChannel>, QueuePair<Rc, Init>) {
            let id = self.channel.create_id::<Tcp>().unwrap();
            let at = self.listening.local_addr().unwrap();
            let id = id.resolve_addr(at, Duration::ZERO).unwrap();
            let id = done(id.advance(&self.event())).resolve_route(Duration::ZERO).unwrap();
            let id = done(id.advance(&self.event()));
            let qp = self.qp(&id);
            (id, qp)
        }

        fn qp<S: HasDevice>(&self, id: &CmId<Tcp, S, OnChannel>) -> QueuePair<Rc, Init> {
            let depth = Depth { send: 1, recv: 1 };
            id.create_qp::<DefaultProfile>(&self.pd, &self.cq, &self.cq, depth).unwrap()
        }
    }

    /// The queue pair rejects them before anything is answered, so that the program can decide.
    /// Proves R23.1.
    #[test]
    fn options_of_another_vendor_are_refused_before_the_answer() {
        let ground = Ground::new();
        let (mut id, qp) = ground.routed();
        id.core.id.set_local_ece(THEIRS).unwrap();
        let pending = id.connect(qp, &ConnParam::default()).unwrap();

        let request = ground.listening.request(ground.event()).unwrap();
        let heard = Ece { vendor_id: 0x15b3, options: 1 };
        assert_eq!(request.id.remote_ece().unwrap(), Some(heard));
        let qp = ground.qp(&request.id);
        let mut param = AcceptParam { ece: true, ..AcceptParam::default() };
        let refused = request.accept(qp, &param).unwrap_err();
        assert!(refused.error.to_string().contains("vendor 0x15b3"), "{}", refused.error);
        let NotAccepted::Unanswered { request, qp } = refused.into_object() else {
            panic!("nothing was answered")
        };
        param.ece = false;
        let accepted = request.accept(qp, &param).unwrap();
        let active = done(pending.advance(&ground.event()));
        assert_eq!(active.id.remote_ece().unwrap(), None);
        done(accepted.advance(&ground.event()));
    }

    /// An answer with options that the queue pair does not support does not establish a connection.
    #[test]
    fn options_of_another_vendor_are_refused_in_an_answer() {
        let ground = Ground::new();
        let (id, qp) = ground.routed();
        let param = ConnParam { ece: true, ..ConnParam::default() };
        let pending = id.connect(qp, &param).unwrap();
        let mut request = ground.listening.request(ground.event()).unwrap();
        request.id.core.id.set_local_ece(THEIRS).unwrap();
        let qp = ground.qp(&request.id);
        let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        let Progress::Failed(refused) = pending.advance(&ground.event()) else { panic!("refused") };
        assert!(refused.error.to_string().contains("vendor 0x15b3"), "{}", refused.error);
        assert!(matches!(refused.into_object(), NotConnected::Failed { .. }));
        let Progress::Failed(_) = accepted.advance(&ground.event()) else { panic!("rejected") };
    }

    /// A side that offered no options ignores options in an answer. A device without options
    /// ignores offered options.
    #[test]
    fn options_that_nobody_takes_change_nothing() {
        let ground = Ground::with(Personality::Rxe);
        let (mut id, qp) = ground.routed();
        id.core.id.set_local_ece(THEIRS).unwrap();
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        let mut request = ground.listening.request(ground.event()).unwrap();
        assert_eq!(request.id.remote_ece().unwrap().map(|ece| ece.options), Some(1));
        request.id.core.id.set_local_ece(THEIRS).unwrap();
        let qp = ground.qp(&request.id);
        let param = AcceptParam { ece: true, ..AcceptParam::default() };
        let accepted = request.accept(qp, &param).unwrap();
        let _active = done(pending.advance(&ground.event()));
        done(accepted.advance(&ground.event()));

        // A device that would accept its own options.
        let ground = Ground::new();
        let (id, qp) = ground.routed();
        let pending = id.connect(qp, &ConnParam::default()).unwrap();
        let mut request = ground.listening.request(ground.event()).unwrap();
        request.id.core.id.set_local_ece(THEIRS).unwrap();
        let qp = ground.qp(&request.id);
        let accepted = request.accept(qp, &AcceptParam::default()).unwrap();
        let _active = done(pending.advance(&ground.event()));
        done(accepted.advance(&ground.event()));
    }

    /// A device without options connects without them. A device that does not answer does not.
    #[test]
    fn a_device_that_does_not_answer_has_not_no_options() {
        let ground = Ground::new();
        let (id, qp) = ground.routed();
        assert!(ground.fabric.break_device(&ground.device));
        let param = ConnParam { ece: true, ..ConnParam::default() };
        let refused = id.connect(qp, &param).unwrap_err();
        assert_eq!(refused.error.errno(), Some(libc::EIO), "{}", refused.error);
        assert!(matches!(refused.into_object(), NotConnected::Unsent { .. }));
    }
}
