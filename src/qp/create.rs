//! Creating queue pairs.

#![allow(unsafe_code)] // one verb

use std::ptr;
use std::sync::Arc;

use super::{Core, QueuePair, SendQueue};
use crate::cq::{CompletionQueue, Share};
use crate::error::{Error, ErrorKind};
use crate::in_flight::books::RECEIVE;
use crate::in_flight::handles::Handles;
use crate::in_flight::{Books, SendBooks, SendMode};
use crate::limits::Limit;
use crate::pd::ProtectionDomain;
use crate::profile::Profile;
use crate::rules::{SharesReceives, UsesOwnQueue, UsesSharedQueue};
use crate::srq::{SharedReceiveQueue, SrqCore};
use crate::state::Reset;
use crate::sys::handle;
use crate::sys::types::{ibv_qp_cap, ibv_qp_init_attr};
use crate::transport::Transport;

const VERB: &str = "ibv_create_qp";

/// How many work requests a queue pair holds (`cap` of ibv_create_qp(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Depth {
    /// Sends (`max_send_wr`).
    pub send: u32,
    /// Receives (`max_recv_wr`); 0 on a queue pair with a shared receive queue.
    pub recv: u32,
}

/// Room that each queue books beyond its depth: for the sentinel of a drain.
const SENTINEL: u32 = 1;

impl ProtectionDomain {
    /// Creates a queue pair with a receive queue of its own (`ibv_create_qp`).
    ///
    /// It books `depth.send + 1` entries of `send_cq` and `depth.recv` of `recv_cq`, which may be the
    /// same queue. What the device cannot give is an error that names the limit.
    ///
    /// ```
    /// # use proverbs::*;
    /// # let proverbs::guide::Ends { pd, context, .. } = proverbs::guide::ends()?;
    /// let cq = context.create_cq(8 + 1 + 8)?;
    /// let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 8, recv: 8 })?;
    /// assert_eq!(cq.capacity() - cq.unbooked(), 17);
    /// let error = pd.create_qp::<Uc, DefaultProfile>(&cq, &cq, Depth { send: u32::MAX / 8, recv: 1 });
    /// assert!(error.unwrap_err().to_string().contains("max_send_wr"));
    /// # drop(qp);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] with what the device has at most, [`ErrorKind::CqTooSmall`] if a completion queue has not enough room
    /// left (R9.9), [`ErrorKind::ContextMismatch`] if it is of another context (R12.1), [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise.
    pub fn create_qp<T: Transport, P: Profile>(
        &self,
        send_cq: &CompletionQueue<P::Entry>,
        recv_cq: &CompletionQueue<P::Entry>,
        depth: Depth,
    ) -> Result<QueuePair<T, Reset, P>, Error>
    where
        P::Receive: UsesOwnQueue,
    {
        create::<T, P>(self, send_cq, recv_cq, depth, None)
    }

    /// Creates a queue pair whose receives come from `srq` (`ibv_create_qp`). `srq` books room for all its
    /// buffers on `recv_cq`, unless it has done so for another queue pair.
    ///
    /// See [`create_srq`](Self::create_srq) for an example.
    ///
    /// # Errors
    /// [`ErrorKind::Limit`] with what the device has at most, [`ErrorKind::CqTooSmall`] if a completion queue has not enough room
    /// left (R9.9), [`ErrorKind::ContextMismatch`] if it is of another context (R12.1), [`ErrorKind::Os`](crate::ErrorKind::Os) with the errno otherwise. [`ErrorKind::PdMismatch`] if `srq` is of
    /// another protection domain (R7.4).
    pub fn create_qp_on_srq<T, P, M>(
        &self,
        send_cq: &CompletionQueue<P::Entry>,
        recv_cq: &CompletionQueue<P::Entry>,
        srq: &SharedReceiveQueue<T, P::Entry, M>,
        send_depth: u32,
    ) -> Result<QueuePair<T, Reset, P>, Error>
    where
        T: SharesReceives,
        P: Profile,
        P::Receive: UsesSharedQueue,
        M: Limit,
    {
        let depth = Depth { send: send_depth, recv: 0 };
        create::<T, P>(self, send_cq, recv_cq, depth, Some(srq.core()))
    }
}

fn create<T: Transport, P: Profile>(
    pd: &ProtectionDomain,
    send_cq: &CompletionQueue<P::Entry>,
    recv_cq: &CompletionQueue<P::Entry>,
    depth: Depth,
    srq: Option<&Arc<SrqCore>>,
) -> Result<QueuePair<T, Reset, P>, Error> {
    if srq.is_some_and(|srq| srq.pd != pd.id()) {
        let what = "the shared receive queue and the queue pair";
        return Err(Error::new(VERB, ErrorKind::PdMismatch { what }));
    }
    for cq in [send_cq.shared(), recv_cq.shared()] {
        // Kernels know objects by numbers that each context begins anew: they would take another for this one.
        if !Arc::ptr_eq(&cq.handle().parents().context, pd.handle().parents()) {
            let what = "the completion queue and the queue pair";
            return Err(Error::new(VERB, ErrorKind::ContextMismatch { what }));
        }
    }
    let books = Books::new(pd.id())
        .ok_or_else(|| Error::os(VERB, libc::ENOSPC, "queue ids are used up"))?;
    let booked = |n: u32| {
        let max = u32::MAX as u64 / 4;
        if n as u64 > max { Err(Error::limit(VERB, "depth", n.into(), max)) } else { Ok(n) }
    };
    let sends = booked(depth.send)? + SENTINEL;
    let receives = booked(depth.recv)?;

    let asked_recv_sge = if srq.is_some() { 0 } else { P::MaxRecvSge::VALUE };
    let mut init = ibv_qp_init_attr {
        qp_context: ptr::null_mut(),
        send_cq: send_cq.shared().handle().as_ptr(),
        recv_cq: recv_cq.shared().handle().as_ptr(),
        srq: srq.map_or(ptr::null_mut(), |srq| srq.as_ptr()),
        cap: ibv_qp_cap {
            max_send_wr: sends,
            max_recv_wr: depth.recv,
            max_send_sge: P::MaxSendSge::VALUE,
            max_recv_sge: asked_recv_sge,
            max_inline_data: P::MaxInline::VALUE,
        },
        qp_type: T::QP_TYPE,
        sq_sig_all: <P::Signaling as SendMode>::SIG_ALL as i32,
    };
    check_limits::<P>(pd, depth)?;

    send_cq.shared().attach(&books, sends, Share::Sends)?;
    let undo_send = Undo(|| send_cq.shared().detach(&books));
    recv_cq.shared().attach(&books, receives, Share::Receives)?;
    let undo_recv = Undo(|| recv_cq.shared().detach(&books));
    if let Some(srq) = srq {
        // The queue books its room once; if this queue pair fails, the room stays booked for others.
        recv_cq.shared().attach(&srq.books, srq.buffers, Share::Shared)?;
        srq.completes_into(recv_cq.shared().inbox());
    }

    let parent = pd.handle();
    let control = parent.control();
    // SAFETY: protection domain, completion queues and shared receive queue are live.
    let qp = match unsafe { (control.create_qp)(parent.as_ptr(), &mut init) } {
        Ok(qp) => qp,
        Err(errno) => {
            let asked = format!(
                "{} with max_send_wr {sends}, max_recv_wr {}, max_send_sge {}, max_recv_sge {}, \
                 max_inline_data {}",
                T::NAME,
                depth.recv,
                P::MaxSendSge::VALUE,
                P::MaxRecvSge::VALUE,
                P::MaxInline::VALUE
            );
            return Err(Error::os(VERB, errno, asked));
        }
    };
    let parents = handle::QpParents {
        pd: parent.clone(),
        send_cq: send_cq.shared().handle().clone(),
        recv_cq: recv_cq.shared().handle().clone(),
    };
    // SAFETY: just created, and owned by nobody else.
    let handle = unsafe { handle::Qp::new(qp, control, parents) };

    // The types say what may be posted, so what was granted must be at least that (R2.11).
    let cap = init.cap;
    for (what, asked, granted) in [
        ("max_inline_data", P::MaxInline::VALUE, cap.max_inline_data),
        ("max_send_sge", P::MaxSendSge::VALUE, cap.max_send_sge),
        ("max_recv_sge", asked_recv_sge, cap.max_recv_sge),
        ("max_send_wr", sends, cap.max_send_wr),
        ("max_recv_wr", depth.recv, if srq.is_some() { depth.recv } else { cap.max_recv_wr }),
    ] {
        if asked > granted {
            return Err(Error::limit(VERB, what, asked.into(), granted.into()));
        }
    }

    undo_send.forget();
    undo_recv.forget();
    // SAFETY: the core owns the books for as long as it has the queues.
    let send: SendQueue<P> = unsafe { SendBooks::new(Arc::as_ptr(&books), depth.send) };
    // SAFETY: as above.
    let recv = unsafe { Handles::with_direction(Arc::as_ptr(&books), depth.recv, RECEIVE) };
    Ok(QueuePair::from_core(Core {
        qp: qp.as_ptr(),
        send,
        recv,
        ah: Default::default(),
        books,
        depth,
        granted: Depth { send: cap.max_send_wr, recv: cap.max_recv_wr },
        port: 0,
        send_cq: send_cq.shared().clone(),
        recv_cq: recv_cq.shared().clone(),
        srq: srq.cloned(),
        is_drained: false,
        groups: Vec::new(),
        handle,
    }))
}

/// Runs a closure unless told not to.
struct Undo<F: FnMut()>(F);

impl<F: FnMut()> Undo<F> {
    fn forget(self) {
        std::mem::forget(self);
    }
}

impl<F: FnMut()> Drop for Undo<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Devices answer EINVAL to any excess; this says which.
fn check_limits<P: Profile>(pd: &ProtectionDomain, depth: Depth) -> Result<(), Error> {
    let attr = pd.context().query_device()?;
    for (what, asked, max) in [
        ("max_send_wr", depth.send, attr.max_qp_wr),
        ("max_recv_wr", depth.recv, attr.max_qp_wr),
        ("max_send_sge", P::MaxSendSge::VALUE, attr.max_sge),
        ("max_recv_sge", P::MaxRecvSge::VALUE, attr.max_sge),
    ] {
        if asked > max {
            return Err(Error::limit(VERB, what, asked.into(), max.into()));
        }
    }
    Ok(())
}

/// See [`QueuePair::believe_in_send_depth`].
pub(super) fn believe_in_send_depth<P: Profile>(
    mut core: Core<P>,
    depth: u32,
) -> Result<Core<P>, Error> {
    // New books would count from 0 again, and take completions of before for their own.
    // And what a reset withheld would be given out.
    if core.send.posted() != 0 || core.send.completed() != 0 || core.send.room() < core.depth.send {
        return Err(Error::os("believe_in_send_depth", libc::EBUSY, "sends were posted"));
    }
    let more = depth.saturating_sub(core.depth.send);
    core.send_cq.attach(&core.books, more, Share::Sends)?;
    // SAFETY: the core owns the books.
    core.send = unsafe { SendBooks::new(Arc::as_ptr(&core.books), depth) };
    core.depth.send = depth;
    Ok(core)
}
