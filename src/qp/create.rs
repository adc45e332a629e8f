//! Creating queue pairs.

#![allow(unsafe_code)] // two verbs

use std::mem::take;
use std::ptr;
use std::sync::Arc;

use super::depth::{CreatedWith, Depth, QpCreateFlags, With};
use super::{Aside, Core, QueuePair, counters, srd};
use crate::cold::reserve;
use crate::completion::CqHandle;
use crate::completion::attachments::Share;
use crate::completion::booking::CqShared;
use crate::counters::queue_counters::{QueueCounters, RECEIVE, SEND};
use crate::device::{Context, ProtectionDomain, Protocol};
use crate::in_flight::ring::slots;
use crate::in_flight::stale::StaleCredits;
use crate::in_flight::{InFlight, SendMode, Slots};
use crate::post::queue::{Queue, SendInFlight};
use crate::profile::{Initiator, InitiatorDepth, Posting, Profile, Signals};
use crate::srq::SrqCore;
use crate::sys::ah_table::AhTable;
use crate::sys::create_qp_ex::ibv_qp_init_attr_ex;
use crate::sys::handle;
use crate::sys::provider::Provider;
use crate::sys::refusal::{not_on_iwarp, of_creation, refusal, speaks_iwarp};
use crate::sys::session::{MOST_SGES, on_rxe, on_xrc};
use crate::sys::types::{ibv_qp_cap, ibv_qp_init_attr, ibv_qp_type, zeroed};
use crate::terms::error::Error;
use crate::terms::state::Reset;
use crate::terms::transport::Transport;
use crate::work::limits::Limit;

const VERB: &str = "ibv_create_qp";

/// The entries that a send queue reserves beyond its depth, for the marker of a drain.
pub(super) const SENTINEL: u32 = 1;

/// [`ProtectionDomain::create_qp`].
pub(crate) fn create_with<T: Transport, P: Profile>(
    pd: &ProtectionDomain<P::Threads>,
    send_cq: &CqHandle<P::Entry, P::Threads>,
    recv_cq: &CqHandle<P::Entry, P::Threads>,
    depth: impl CreatedWith<T, P>,
) -> Result<QueuePair<T, Reset, P>, Error> {
    let With { depth, srq, flags } = depth.parts();
    create::<T, P>(pd, send_cq, recv_cq, depth, srq, flags)
}

/// One copy for each transport and profile, regardless of the creation arguments.
#[inline(never)]
pub(crate) fn create<T: Transport, P: Profile>(
    pd: &ProtectionDomain<P::Threads>,
    send_cq: &CqHandle<P::Entry, P::Threads>,
    recv_cq: &CqHandle<P::Entry, P::Threads>,
    depth: Depth,
    srq: Option<&Arc<SrqCore>>,
    flags: QpCreateFlags,
) -> Result<QueuePair<T, Reset, P>, Error> {
    let send_ops = send_ops::<T, P>();
    let is_plain = flags.to_c() == 0 && send_ops == 0;
    let verb = match (T::ORDERED, is_plain) {
        (true, true) => VERB,
        (true, false) => "ibv_create_qp_ex",
        (false, _) => srd::VERB,
    };
    if send_ops != 0 {
        let what = "max_send_sge of extended posting";
        Error::at_most(verb, what, P::MaxSendSge::VALUE, MOST_SGES)?;
    }
    let is_one = srq.is_none_or(|srq| srq.pd == pd.id());
    Error::unless_one_pd(VERB, "the shared receive queue and the queue pair", is_one)?;
    let (parent, context) = (pd.handle(), pd.context());
    let ends = [send_cq.queue(VERB)?, recv_cq.queue(VERB)?];
    let ends @ [send_cq, recv_cq] = ends.each_ref();
    check_context::<T, P>(VERB, &context, ends)?;
    (P::Posting::CHECK)(&context, verb, send_ops)?;
    let sends = bookable(depth.send)? + SENTINEL;
    let receives = bookable(depth.recv)?;

    let is_initiator = T::QP_TYPE == ibv_qp_type::IBV_QPT_XRC_SEND;
    let has_own_receives = srq.is_none() && !is_initiator;
    let asked_recv_sge = if has_own_receives { P::MaxRecvSge::VALUE } else { 0 };
    // siw's library maps the receives, and cannot map an empty ring (R24.11).
    let asked_recvs = match depth.recv {
        0 if has_own_receives && speaks_iwarp(&context.handle) => 1,
        recvs => recvs,
    };
    let mut init = ibv_qp_init_attr {
        send_cq: send_cq.handle().as_ptr(),
        recv_cq: if is_initiator { ptr::null_mut() } else { recv_cq.handle().as_ptr() },
        srq: srq.map_or(ptr::null_mut(), |srq| srq.as_ptr()),
        cap: ibv_qp_cap {
            max_send_wr: sends,
            max_recv_wr: asked_recvs,
            max_send_sge: P::MaxSendSge::VALUE,
            max_recv_sge: asked_recv_sge,
            max_inline_data: P::MaxInline::VALUE,
            ..zeroed()
        },
        qp_type: T::QP_TYPE,
        sq_sig_all: Signals::<T, P>::SQ_SIG_ALL as i32,
        ..zeroed()
    };
    check_limits::<P>(verb, &context, Depth { send: sends, ..depth })?;

    if let Some(srq) = srq.filter(|_| Arc::ptr_eq(send_cq, recv_cq)) {
        send_cq.check_room_for_both(VERB, sends, &srq.counters, srq.buffers)?;
    }
    let booking = Booking::new::<P>(pd, ends, [sends, receives])?;
    if let Some(srq) = srq {
        // The shared queue reserves its entries once. If this queue pair fails, they stay reserved
        // for later ones.
        recv_cq.attach(VERB, &srq.counters, [0, srq.buffers], Share::Shared)?;
        srq.dependents.completes_into(recv_cq.inbox());
    }

    let control = parent.control();
    // SAFETY: protection domain, its context, completion queues and shared receive queue are live.
    let made = unsafe {
        if is_plain {
            (control.create_qp)(parent.as_ptr(), &mut init)
        } else {
            // The attributes that sessions read.
            if is_initiator {
                init.qp_context = on_xrc();
            } else if T::ORDERED && context.handle.is_soft_roce() {
                init.qp_context = on_rxe();
            }
            let (pd, flags) = (parent.as_ptr(), flags.to_c());
            let mut ex = ibv_qp_init_attr_ex::new(&init, pd, flags, send_ops);
            let made = match T::ORDERED {
                true => (control.create_qp_ex)(&mut ex),
                false => (control.create_srd_qp)(&mut ex, srd::flags::<P>(send_ops)),
            };
            init.cap = ex.cap;
            made
        }
    };
    let qp = match made {
        Ok(qp) => qp,
        Err(errno) => {
            let mut asked = format!(
                "{} with max_send_wr {sends}, max_recv_wr {asked_recvs}, max_send_sge {}, \
                 max_recv_sge {}, max_inline_data {}",
                T::NAME,
                P::MaxSendSge::VALUE,
                P::MaxRecvSge::VALUE,
                P::MaxInline::VALUE
            );
            if flags.to_c() != 0 {
                asked.push_str(&format!(", {flags:?}"));
            }
            if !T::ORDERED || send_ops != 0 {
                asked.push_str(&format!(", send_ops_flags {send_ops:#x}"));
            }
            asked.push_str(&match errno {
                _ if !T::ORDERED => srd::why(send_ops, errno, &context.handle),
                libc::EOPNOTSUPP if send_ops != 0 => (P::Posting::WHY_NOT)(send_ops),
                _ => String::new(),
            });
            return Err(of_creation(verb, errno, asked));
        }
    };
    // SAFETY: the object was just created, and has no other owner.
    let mut handle = unsafe { handle::Qp::new(qp, control, booking.parents(parent)) };
    if let Err(error) = check_granted::<P>(verb, sends, depth.recv, !has_own_receives, &init.cap) {
        // If the device refuses, dropping the handle tries again. A queue pair that stays keeps its
        // shared receive queue, whose buffers other queue pairs use.
        let _ = handle.close();
        return Err(error);
    }
    Ok(QueuePair::from_core(Core::open(booking, depth, &init.cap, srq, handle)))
}

/// The counters of a queue pair that is about to be created, and its room in the completion queues
/// of its sends and receives. Dropping it releases the room.
pub(super) struct Booking<'a> {
    counters: Arc<QueueCounters>,
    /// For the ring of its sends. It is allocated before the queue pair exists.
    slots: Slots,
    ends: [&'a Arc<CqShared>; 2],
    is_used: bool,
}

impl<'a> Booking<'a> {
    pub(super) fn new<P: Profile>(
        pd: &ProtectionDomain<P::Threads>,
        ends @ [send, recv]: [&'a Arc<CqShared>; 2],
        [sends, receives]: [u32; 2],
    ) -> Result<Self, Error> {
        let counters = counters::<P>(VERB, pd.id())?;
        if pd.context().provider() == Provider::Siw {
            counters.set_siw();
        }
        let count = if SendInFlight::<P>::MARKED { 0 } else { slots(sends - SENTINEL) };
        let asked = || format!("no memory for the entries of max_send_wr {sends}");
        let slots = reserve(count).map_err(|_| Error::os(VERB, libc::ENOMEM, asked()))?;
        let booking = Booking { counters, slots, ends, is_used: false };
        if Arc::ptr_eq(send, recv) {
            send.attach(VERB, &booking.counters, [sends, receives], Share::Both)?;
        } else {
            send.attach(VERB, &booking.counters, [sends, 0], Share::Sends)?;
            recv.attach(VERB, &booking.counters, [0, receives], Share::Receives)?;
        }
        Ok(booking)
    }

    pub(super) fn parents(&self, pd: &Arc<handle::Pd>) -> handle::QpParents {
        let [send_cq, recv_cq] = self.ends.map(|cq| cq.handle().clone());
        handle::QpParents { pd: pd.clone(), send_cq, recv_cq }
    }
}

impl Drop for Booking<'_> {
    fn drop(&mut self) {
        if !self.is_used {
            self.ends.iter().for_each(|end| end.detach(&self.counters));
        }
    }
}

/// Rejects completion queues of another context, and features that the fabric does not have.
pub(super) fn check_context<T: Transport, P: Profile>(
    verb: &'static str,
    Context { handle: context }: &Context,
    ends: [&Arc<CqShared>; 2],
) -> Result<(), Error> {
    // Kernels identify objects by numbers that start again in each context, so they would use the
    // wrong object.
    let is_one = ends.iter().all(|cq| Arc::ptr_eq(&cq.handle().parents().context, context));
    Error::unless_one_context(verb, "the completion queue and the queue pair", is_one)?;
    let refused = |asked: &dyn Fn() -> String, lacks, instead| {
        not_on_iwarp(context, verb, asked, lacks, instead)
    };
    if !Protocol::Iwarp.has::<T>() {
        let instead = "create an RC queue pair with `CmId::create_qp`";
        refused(&|| format!("a {} queue pair", T::NAME), "RC alone", instead)?;
    }
    let reads = <P::Initiator as Initiator>::Depth::LEAST.to_c() > 0;
    // A ring returns buffers with a later completion. On iWARP a READ completes after sends that
    // were posted later, and TCP may still send from the buffer of an unsignaled send.
    if !<P::Signaling as SendMode>::SIG_ALL {
        let asked = || "selective signaling".to_owned();
        let lacks = "completions that do not cover earlier unsignaled sends";
        refused(&asked, lacks, "use a profile with `signaling: SignalAll`")?;
        let provider = context.provider();
        if !provider.covers_unsignaled() {
            let lacks =
                format!("has {provider}, whose completions may not cover earlier unsignaled sends");
            let instead = "use a profile with `signaling: SignalAll` (docs/providers.md)";
            return Err(refusal(context, verb, asked(), &lacks, instead));
        }
    }
    // Some devices accept more elements of a READ than they fill.
    if P::MaxSendSge::VALUE > 1 && reads {
        let asked = || format!("READs with max_send_sge {}", P::MaxSendSge::VALUE);
        let instead = "use a profile with `max_send_sge: 1`, or with `NoReads`";
        refused(&asked, "only READs into one element", instead)?;
    }
    Ok(())
}

/// The operations that a queue pair of extended posting is created with: all operations that
/// [`PostOn`](crate::rules::PostOn) and the profile allow (R15.1). 0 for an ordinary queue pair.
fn send_ops<T: Transport, P: Profile>() -> u64 {
    use crate::sys::session::send_ops::*;
    const ON_UD: u64 = SEND | SEND_WITH_IMM;
    const ON_UC: u64 = ON_UD | RDMA_WRITE | RDMA_WRITE_WITH_IMM;
    const ON_RC: u64 = ON_UC | SEND_WITH_INV | LOCAL_INV | BIND_MW;
    const ON_XRC: u64 = ON_UC | SEND_WITH_INV;
    const FETCHING: u64 = RDMA_READ | ATOMIC_CMP_AND_SWP | ATOMIC_FETCH_AND_ADD;
    let fetches = <P::Initiator as Initiator>::Depth::LEAST.to_c() > 0;
    match T::QP_TYPE {
        _ if !P::Posting::IS_EXTENDED => 0,
        ibv_qp_type::IBV_QPT_RC if fetches => ON_RC | FETCHING | P::Posting::MORE_OPS,
        ibv_qp_type::IBV_QPT_RC => ON_RC,
        ibv_qp_type::IBV_QPT_XRC_SEND if fetches => ON_XRC | FETCHING,
        ibv_qp_type::IBV_QPT_XRC_SEND => ON_XRC,
        ibv_qp_type::IBV_QPT_UC => ON_UC,
        ibv_qp_type::IBV_QPT_DRIVER if fetches => ON_UD | RDMA_READ | P::Posting::MORE_OPS,
        ibv_qp_type::IBV_QPT_DRIVER => ON_UD | P::Posting::MORE_OPS,
        _ => ON_UD,
    }
}

/// The types define how much may be posted, so at least that much must be granted (R2.11).
pub(super) fn check_granted<P: Profile>(
    verb: &'static str,
    sends: u32,
    receives: u32,
    is_shared: bool,
    cap: &ibv_qp_cap,
) -> Result<(), Error> {
    let own = |n| if is_shared { 0 } else { n };
    Error::at_most(verb, "max_inline_data", P::MaxInline::VALUE, cap.max_inline_data)?;
    Error::at_most(verb, "max_send_sge", P::MaxSendSge::VALUE, cap.max_send_sge)?;
    Error::at_most(verb, "max_recv_sge", own(P::MaxRecvSge::VALUE), cap.max_recv_sge)?;
    Error::at_most(verb, "max_send_wr", sends, cap.max_send_wr)?;
    Error::at_most(verb, "max_recv_wr", own(receives), cap.max_recv_wr)
}

/// Checks that counters can represent a depth.
pub(super) fn bookable(depth: u32) -> Result<u32, Error> {
    Error::at_most(VERB, "depth", depth, u32::MAX / 4)?;
    Ok(depth)
}

impl<P: Profile> Core<P> {
    /// A queue pair on which nothing is outstanding.
    pub(super) fn open(
        mut booking: Booking<'_>,
        depth: Depth,
        cap: &ibv_qp_cap,
        srq: Option<&Arc<SrqCore>>,
        handle: handle::Qp,
    ) -> Self {
        booking.is_used = true;
        let (counters, [send_cq, recv_cq]) =
            (booking.counters.clone(), booking.ends.map(Arc::clone));
        let (sends, receives) = ((depth.send, take(&mut booking.slots)), (depth.recv, Vec::new()));
        let sends = SendInFlight::<P>::open(&counters, SEND, sends, StaleCredits::default());
        let receives = InFlight::open(&counters, RECEIVE, receives, StaleCredits::default());
        let qp = handle.as_ptr();
        let aside = Box::new(Aside {
            counters,
            depth,
            granted: Depth { send: cap.max_send_wr, recv: cap.max_recv_wr },
            port: 0,
            longest: None,
            may_migrate: false,
            send_cq,
            recv_cq,
            srq: srq.cloned(),
            is_drained: false,
            offered: None,
            ah: AhTable::default(),
            groups: Vec::new(),
            windows: Default::default(),
            handle,
        });
        Core { send: Queue::new(qp, sends), recv: Queue::new(qp, receives), aside }
    }
}

/// Finds the limit that was exceeded. Devices return EINVAL for all of them.
fn check_limits<P: Profile>(
    verb: &'static str,
    context: &Context,
    depth: Depth,
) -> Result<(), Error> {
    let attr = context.limits()?;
    let [wrs, sges] = [attr.max_qp_wr, attr.max_sge].map(|max| max.max(0) as u32);
    Error::at_most(verb, "max_send_wr", depth.send, wrs)?;
    Error::at_most(verb, "max_recv_wr", depth.recv, wrs)?;
    Error::at_most(verb, "max_send_sge", P::MaxSendSge::VALUE, sges)?;
    Error::at_most(verb, "max_recv_sge", P::MaxRecvSge::VALUE, sges)
}

#[cfg(all(test, feature = "loopback"))]
mod tests;
