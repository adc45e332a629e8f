//! All the rules of a work request as one bound, which every way of posting has. The rules are the
//! bounds of the impls, so an error names the one that is broken.

use super::{Addressed, CreatedFor, FenceOn, IssuedBy, PostOn, SignaledOn};
use crate::allows::Seal;
use crate::memory::entry::Entry;
use crate::profile::Profile;
use crate::sys::types::{ibv_recv_wr, ibv_send_wr};
use crate::terms::transport::{Rc, Srd, Transport, Uc, Ud, Xrc};
use crate::work::address::Address;
use crate::work::data::{Data, Fits, SrqSink};
use crate::work::limits::{Limit, Max};
use crate::work::recv::Recv;
use crate::work::request::{Flagged, Work, WorkRequest};

/// A send work request that queue pairs of transport `T` and profile `P` accept (ibv_post_send(3)):
/// the one bound of code that posts to a queue pair of unknown transport or profile.
///
/// The transport and the profile must have the opcode, the address must be of the transport's kind,
/// the flags must have a meaning there, and the data must fit the profile's entry type and limits.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::transport::Transport;
/// fn send_any<T: Transport, P: Profile<Entry = Buf>>(
///     qp: &mut QueuePair<T, Rts, P>,
///     buf: Buf,
/// ) -> Result<(), PostError<Buf>>
/// where
///     wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, P>,
/// {
///     qp.post_send(wr::Send::new(buf))
/// }
/// ```
///
/// Code for one transport and any profile bounds the profile instead:
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::AtLeast;
/// struct Client<P: Profile>(QueuePair<Rc, Rts, P>);
///
/// impl<P> Client<P>
/// where
///     P: Profile<Entry = Buf, Receive = OwnRq, MaxSendSge: AtLeast<2>, MaxRecvSge: AtLeast<1>>,
/// {
///     fn call(&mut self, head: &[u8], body: &[u8], answer: Buf) -> Result<(), PostError<Buf>> {
///         self.0.post_recv(wr::Recv::new(answer))?;
///         self.0.post_send(wr::Send::inline_list([head, body]))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a send work request of a `{T}` queue pair",
    label = "not known to be a work request that this queue pair accepts",
    note = "post a work request: `wr::Send::new(buf)`, `wr::RdmaWrite::new(buf, remote)` and so on",
    note = "in code that is generic over the transport, bound the work request: `where wr::WorkRequest<wr::Send, Buf>: wr::SendOn<T, P>`"
)]
#[allow(private_bounds)] // sealed
pub trait SendOn<T: Transport, P: Profile>: Work<P::Entry, Wr = ibv_send_wr> + Flagged {
    #[doc(hidden)]
    const SEAL: Seal;
}

// One impl for each transport. With one for all of them, a bound that is missing in code that is
// generic over the transport would be an error for each rule, in place of one that names `SendOn`.
macro_rules! send_on {
    ($($transport:ty)*) => {$(
        impl<P, O, D, A, F, G> SendOn<$transport, P> for WorkRequest<O, D, A, F, G>
        where
            P: Profile,
            O: PostOn<$transport> + IssuedBy<P::Initiator> + CreatedFor<P::Posting>,
            A: Addressed<$transport> + Address,
            F: FenceOn<$transport>,
            G: SignaledOn<P::Signaling>,
            D: Data<P::Entry, This: Fits<P::MaxSendSge, P::MaxInline>>,
        {
            const SEAL: Seal = Seal;
        }
    )*};
}

send_on! { Rc Uc Ud Xrc Srd }

/// A receive work request that queue pairs of profile `P` accept (ibv_post_recv(3)): the one bound
/// of code that posts receives to a queue pair of unknown profile, as [`SendOn`] is for sends.
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::transport::Transport;
/// fn credit<T: Transport, P: Profile<Entry = Buf, Receive = OwnRq>>(
///     qp: &mut QueuePair<T, Rts, P>,
///     buf: Buf,
/// ) -> Result<(), PostError<Buf>>
/// where
///     wr::Recv<Buf>: wr::RecvOn<P>,
/// {
///     qp.post_recv(wr::Recv::new(buf))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a receive work request",
    label = "not known to be a receive",
    note = "post `wr::Recv::new(buf)`, or `wr::Recv::empty()`"
)]
#[allow(private_bounds)] // sealed
pub trait RecvOn<P: Profile>: Work<P::Entry, Wr = ibv_recv_wr> {
    #[doc(hidden)]
    const SEAL: Seal;
}

impl<P, D> RecvOn<P> for Recv<D>
where
    P: Profile,
    D: Data<P::Entry, This: Fits<P::MaxRecvSge, P::MaxInline>>,
{
    const SEAL: Seal = Seal;
}

/// A receive work request that shared receive queues of entry type `E` and limit `M` accept
/// (ibv_post_srq_recv(3)), as [`RecvOn`].
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::qp::Limit;
/// fn refill<M: Limit>(
///     srq: &mut SharedReceiveQueue<Rc, Buf, M>,
///     buf: Buf,
/// ) -> Result<(), PostError<Buf>>
/// where
///     wr::Recv<Buf>: wr::SrqRecvOn<Buf, M>,
/// {
///     srq.post_srq_recv(wr::Recv::new(buf))
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to be a receive work request",
    label = "not known to be a receive",
    note = "post `wr::Recv::new(buf)`"
)]
#[allow(private_bounds)] // sealed
pub trait SrqRecvOn<E: Entry, M: Limit>: Work<E, Wr = ibv_recv_wr> {
    #[doc(hidden)]
    const SEAL: Seal;
}

impl<E, M, D> SrqRecvOn<E, M> for Recv<D>
where
    E: Entry,
    M: Limit,
    D: Data<E, This: SrqSink + Fits<M, Max<0>>>,
{
    const SEAL: Seal = Seal;
}
