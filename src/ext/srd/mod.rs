//! SRD: reliable datagrams of EFA, which do not preserve order. [`QueuePair::sender`] has an
//! example.
//!
//! The design is in [docs/srd.md](https://docs.rs/crate/proverbs/latest/source/docs/srd.md).

#![allow(unsafe_code)] // reads fields that SRD promises

use crate::completion::{Completion, Direction};
use crate::ext::extended_posting::{ExtendedPosting, MoreOps};
use crate::memory::Owned;
use crate::memory::remote::by_fields;
use crate::profile::{self, Posting, Profile, SignalAll, Signaling};
use crate::qp::c_attr::{Attr, Fill, attributes};
use crate::qp::modify::{Transition, transitions};
use crate::qp::{QpQkey, QueuePair, UdInit, UdReinit, UdReturn, UdRtr};
use crate::rules::{
    AllowedInList, CompletesEach, CreatedBy, Creates, MayFollow, PostOn, Seal, TakesDestinations,
    Writes, holds,
};
use crate::sys::session::send_ops::{RDMA_WRITE, RDMA_WRITE_WITH_IMM};
use crate::sys::srd::SrdSession;
use crate::terms::bounded::{Psn, Qpn, RnrRetry};
use crate::terms::state::{Init, Reset, Rtr, Rts, State};
use crate::terms::transport::Srd;
use crate::work::limits::{Limit, Max};
use crate::work::opcode::{Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm, Send, SendWithImm};

attributes! {
    /// RTR -> RTS of SRD (ibv_modify_qp(3)), as [`QueuePair::sender`](crate::QueuePair::sender)
    /// shows.
    pub struct SrdRts {
        /// The first PSN to send.
        pub sq_psn: Psn,
        /// The Q_Key that a message must carry to be received.
        pub qkey: Option<QpQkey> = None,
        /// How often a message is retried if its receiver has no receive posted; forever if `None`.
        /// Devices that do not support this attribute reject it.
        pub rnr_retry: Option<RnrRetry> = None,
    } new {
        /// Without optional attributes.
    }
}

transitions! {
    UdInit: Srd Reset -> Init;
    UdReinit: Srd Init -> Init;
    UdRtr: Srd Init -> Rtr;
    SrdRts: Srd Rtr -> Rts;
    UdReturn: Srd Rts -> Rts;
}

/// The sender of a message on SRD. Returned by [`QueuePair::sender`] (ibv_poll_cq(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Sender {
    /// The number of the queue pair that sent it.
    pub qpn: Qpn,
    /// The device's number of the address handle for the sender (`slid` of ibv_poll_cq(3)); `None`
    /// if there is no such handle.
    /// [`AddressHandle::efa_number`](crate::device::AddressHandle::efa_number) returns the number
    /// of an address handle.
    pub ah_number: Option<u16>,
}

/// The value that means that there is no such address handle.
const UNKNOWN: u16 = 0xffff;

impl<S: State, P: Profile<Entry: Owned>> QueuePair<Srd, S, P> {
    /// The sender of this message, if the completion is a successful receive of this queue pair.
    /// Call this before you consume the completion.
    ///
    /// ```
    /// # use proverbs::prelude::*;
    /// use proverbs::{ext::srd::Sender, loopback::{Fabric, World}, wr::Destination};
    /// use proverbs::ext::{extended_posting::ExtendedPosting, srd::SrdRts};
    /// profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 32 } }
    ///
    /// let context = Fabric::with(World::efa()).open_device();
    /// let pd = context.alloc_pd()?;
    /// let pool = pd.create_pool(16, 256)?;
    /// let mut cq: CompletionQueue = context.create_cq(64)?;
    /// let (qkey, psn) = (Qkey::try_from(0x1111)?, Psn::try_from(0)?);
    /// let ready = || -> Result<QueuePair<Srd, Rts, Spread>, Box<dyn std::error::Error>> {
    ///     let qp = pd.create_qp::<Srd, Spread>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    ///     let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
    ///     Ok(qp.modify(UdRtr::default())?.modify(SrdRts::new(psn))?)
    /// };
    /// let (mut client, mut server) = (ready()?, ready()?);
    /// let gid = context.roce_v2_gid(1)?;
    /// let way = || pd.create_ah(AddressVector::roce_v2(gid, gid.gid())?);
    /// let address_handle = client.add_address_handle(way()?)?;
    /// let to = Destination { address_handle, qpn: Qpn::try_from(server.qp_num())?, qkey };
    ///
    /// // The WRITE has its own completion at the peer: a SEND after it could arrive first.
    /// let region = pd.register::<RemoteWrite>(64)?;
    /// server.post_recv(wr::Recv::empty())?;
    /// let written = wr::RdmaWriteWithImm::inline(b"in any order", region.remote().write(), 7);
    /// client.post_send(written.to(to))?;
    ///
    /// let mut from: Option<Sender> = None;
    /// while from.is_none() || client.sends_outstanding() != 0 {
    ///     for completion in cq.poll()? {
    ///         completion.status()?;
    ///         from = from.or(server.sender(&completion));
    ///     }
    /// }
    /// let mut there = [0; 12];
    /// region.read_at(0, &mut there)?;
    /// assert_eq!((&there, from.unwrap().qpn), (b"in any order", Qpn::try_from(client.qp_num())?));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn sender(&self, completion: &Completion<'_, P::Entry>) -> Option<Sender> {
        if completion.direction() != Direction::Receive
            || !completion.belongs_to(&self.core.counters)
        {
            return None;
        }
        // SAFETY: it belongs to a receive of this queue pair, whose arrivals have a source like
        // those of UD (EFA's provider writes it with each).
        let (src_qp, slid) = unsafe { completion.source() }?;
        let qpn = Qpn::new(src_qp & Qpn::MAX.get()).unwrap_or(Qpn::MAX);
        Some(Sender { qpn, ah_number: (slid != UNKNOWN).then_some(slid) })
    }
}

impl profile::sealed::Sealed for Srd {}
impl profile::sealed::Sealed for (Srd, RdmaWrite) {}

impl MoreOps for Srd {
    const FLAGS: u64 = 0;
    type Verb = SrdSession;
}

impl MoreOps for (Srd, RdmaWrite) {
    const FLAGS: u64 = RDMA_WRITE | RDMA_WRITE_WITH_IMM;
    type Verb = SrdSession;
}

holds! { PostOn<Srd>: Send, SendWithImm, RdmaRead, RdmaWrite, RdmaWriteWithImm; }

impl TakesDestinations for Srd {}
impl Writes for ExtendedPosting<(Srd, RdmaWrite)> {}

impl MayFollow<RdmaWrite, Srd> for RdmaWrite {}
impl<B: AllowedInList<Srd>, O: Opcode> MayFollow<B, Srd> for O {}
impl<O: Opcode> MayFollow<(), Srd> for O {}

impl AllowedInList<Srd> for Send {}
impl AllowedInList<Srd> for SendWithImm {}
impl AllowedInList<Srd> for RdmaRead {}
impl AllowedInList<Srd> for RdmaWriteWithImm {}

/// `efadv_create_qp_ex`.
#[doc(hidden)]
pub enum EfaCreateQp {}

impl CreatedBy for Srd {
    type Verb = EfaCreateQp;
}

impl<P> Creates<Srd, P> for EfaCreateQp
where
    P: Profile,
    P::Signaling: TellsOfEach,
    P::MaxSendSge: OneElement,
    P::Posting: ForSrd,
{
    const SEAL: Seal = Seal;
}

/// Every work request of an SRD queue pair is signaled ([R27.3](crate::guide::rules#r27-3)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with `{Self}` signaling",
    label = "with the profile's signaling, one completion stands for all earlier work requests",
    note = "on SRD, sends complete in any order, so a buffer could be returned while the device still reads it: use a profile with `SignalAll`, which is the default (R27.3)"
)]
pub trait TellsOfEach: Signaling + CompletesEach {}

impl TellsOfEach for SignalAll {}

/// SRD work requests have one scatter/gather element ([R27.6](crate::guide::rules#r27-6)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with a `MaxSendSge` of `{Self}`",
    label = "the profile's `MaxSendSge` is not one scatter/gather element",
    note = "an RDMA READ or WRITE of SRD has one element: use a profile with `max_send_sge: 1`, which is the default (R27.6)"
)]
pub trait OneElement: Limit {}

impl OneElement for Max<1> {}

/// SRD is posted in sessions that set the destination of each work request
/// ([R27.2](crate::guide::rules#r27-2)).
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "an SRD queue pair cannot be created with `{Self}`",
    label = "the profile's `Posting` is `{Self}`",
    note = "`ibv_post_send` does not support RDMA on SRD, because `ibv_send_wr` has no room for the destination: use a profile with `posting: ExtendedPosting<Srd>`, or `ExtendedPosting<(Srd, wr::RdmaWrite)>` if it writes"
)]
pub trait ForSrd: Posting {}

impl ForSrd for ExtendedPosting<Srd> {}
impl ForSrd for ExtendedPosting<(Srd, RdmaWrite)> {}
