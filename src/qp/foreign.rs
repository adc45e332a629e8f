//! Queue pairs that were created outside this crate.

#![allow(unsafe_code)] // takes ownership of a C object

use std::ptr::NonNull;

use super::create::{Booking, SENTINEL, bookable, check_context, check_granted};
use super::query::ask;
use super::{Core, Depth, QueuePair};
use crate::allows::{Allows, call};
use crate::completion::CqHandle;
use crate::device::ProtectionDomain;
use crate::profile::{Profile, Signals};
use crate::sys::handle;
use crate::sys::types::{ibv_qp, ibv_qp_attr_mask as Mask};
use crate::terms::error::{Error, ErrorKind};
use crate::terms::state::{QpState, Sqd, State};
use crate::terms::threads::Threads;
use crate::terms::transport::Transport;

const VERB: &str = "ibv_query_qp";

impl<L: Threads> ProtectionDomain<L> {
    /// Takes ownership of a queue pair that was created outside this crate, such as by C code, on
    /// this domain and on completion queues of this crate ([`AsRaw`](crate::raw::AsRaw) returns
    /// their handles). [`raw`](crate::raw) has an example. From then on the crate owns the queue
    /// pair and destroys it.
    ///
    /// The attributes that the device reports are checked: the domain, completion queues, transport
    /// and state, and signaling if the provider reports it. The depths and limits of the profile
    /// must not exceed the capacities of the queue pair (for sends, `depth.send` plus one for a
    /// drain).
    ///
    /// # Safety
    /// - `qp` is a live queue pair of the same provider as the domain.
    /// - Nothing is outstanding: each work request that was posted to it has completed, and its
    ///   completion was polled.
    /// - If the call succeeds, no other code destroys the queue pair, changes its state, or posts
    ///   to it from then on. In a lane, no other code creates or uses an object of its thread
    ///   domain.
    /// - In RTS and SQD, `max_rd_atomic` is not 0 if the profile may issue reads and atomics.
    /// - On siw, irdma, EFA and unknown providers ([`Provider`](crate::device::Provider)), whose
    ///   `ibv_query_qp` does not report `sq_sig_all`: it was created with 1 for a profile with
    ///   `signaling: SignalAll`, and with 0 if the entry is an `OpenBuf` or an `AnyBuf`
    ///   ([R18.18](crate::guide::rules#r18-18)) or with `Selective`. Otherwise sends would be
    ///   unsignaled, and their buffers would be returned while siw still sends from them.
    /// - If READs may go to memory that the processor cannot access (the entry is an `OpenBuf` or
    ///   an `AnyBuf`), the provider does not deliver their bytes with completions:
    ///   mlx5dv_create_qp(3) was not used to enable that. (Without `sq_sig_all`, which is checked,
    ///   mlx5 does not do so by itself; [R18.18](crate::guide::rules#r18-18).)
    ///
    /// # Errors
    /// The caller keeps the queue pair.
    /// - [`ErrorKind::PdMismatch`], [`ErrorKind::ContextMismatch`]: it belongs to another domain or
    ///   context.
    /// - [`ErrorKind::Limit`]: a capacity of the queue pair is too small. The error contains the
    ///   capacity.
    /// - [`ErrorKind::CqTooSmall`]: a completion queue has no room
    ///   ([R9.9](crate::guide::rules#r9-9)).
    /// - [`ErrorKind::NotFound`]: another attribute differs. The error names it.
    /// - [`ErrorKind::Os`] with the errno of `ibv_query_qp`.
    pub unsafe fn qp_from_raw<T, S, P>(
        &self,
        qp: NonNull<ibv_qp>,
        send_cq: &CqHandle<P::Entry, L>,
        recv_cq: &CqHandle<P::Entry, L>,
        depth: Depth,
    ) -> Result<QueuePair<T, S, P>, Error>
    where
        T: Transport,
        S: State,
        P: Profile<Threads = L> + Allows<call::QpFromRaw<T>>,
    {
        let ends = [send_cq.queue(VERB)?, recv_cq.queue(VERB)?];
        let ends = ends.each_ref();
        let (parent, context) = (self.handle(), self.context());
        // SAFETY: the queue pair is live (this function's contract).
        let (pd, cqs, srq) = unsafe {
            let qp = qp.as_ptr();
            ((*qp).pd, [(*qp).send_cq, (*qp).recv_cq], (*qp).srq)
        };
        let what = "the queue pair and the protection domain";
        Error::unless_one_pd(VERB, what, pd == parent.as_ptr())?;
        check_context::<T, P>(VERB, &context, ends)?;
        let differs = |what: String| Err(Error::new(VERB, ErrorKind::NotFound(what)));
        if cqs != ends.map(|cq| cq.handle().as_ptr()) {
            return differs("the queue pair completes into other completion queues".into());
        }
        if !srq.is_null() {
            return differs("the queue pair receives from a shared receive queue".into());
        }

        let mask = Mask::IBV_QP_STATE.0 | Mask::IBV_QP_CAP.0 | Mask::IBV_QP_PORT.0;
        let control = parent.control();
        // SAFETY: the queue pair is live (this function's contract).
        let (attr, init) = unsafe { ask(control, qp.as_ptr(), mask) }?;
        if init.qp_type != T::QP_TYPE {
            return differs(format!("the queue pair is not {}", T::NAME));
        }
        let state = QpState::from_c(attr.qp_state);
        if state != Some(S::STATE) {
            let is = state.map_or("an unknown state", QpState::name);
            return differs(format!("the queue pair is in {is}, not in {}", S::STATE));
        }
        if S::NAME == Sqd::NAME && attr.sq_draining != 0 {
            return differs("the send queue is draining: the state is `Draining`".into());
        }
        let is_told = context.provider().tells_signaling();
        if is_told && (init.sq_sig_all != 0) != Signals::<T, P>::SQ_SIG_ALL {
            let mut is = format!("the queue pair has sq_sig_all {}", init.sq_sig_all);
            if Signals::<T, P>::EACH != 0 {
                is.push_str(
                    ": create it with 0, each send of this profile sets IBV_SEND_SIGNALED (R18.18)",
                );
            }
            return differs(is);
        }
        let sends = bookable(depth.send)? + SENTINEL;
        check_granted::<P>(VERB, sends, bookable(depth.recv)?, false, &init.cap)?;

        let booking = Booking::new::<P>(self, ends, [sends, depth.recv])?;
        let limit = match S::STATE {
            QpState::Rts | QpState::Sqd | QpState::Sqe => {
                Some(super::limit::longest_message::<T>(&context, attr.port_num)?)
            }
            _ => None,
        };
        // SAFETY: the queue pair is live, belongs to the provider of the domain, and the caller
        // gives up its ownership (this function's contract).
        let handle = unsafe { handle::Qp::new(qp, control, booking.parents(parent)) };
        let mut core = Core::open(booking, depth, &init.cap, None, handle);
        core.port = attr.port_num;
        core.limit_messages::<T>(limit);
        Ok(QueuePair::from_core(core))
    }
}
