//! The steps that post.

use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::{loopback, rules};

use crate::books::*;
use crate::describe::PIECE;
use crate::program::*;
use crate::wire::*;
use crate::world::{INLINE, World};

impl<T: Wire<P>, P: Kind> World<T, P> {
    pub fn send(&mut self, slot: usize, form: Form, work: &[Work]) -> Check {
        if !matches!(
            self.qps[slot].any,
            Any::Rts(_) | Any::Draining(_) | Any::Sqd(_) | Any::Error(_)
        ) {
            return Ok(());
        }
        let (mut described, mut wrs) = (Vec::new(), Vec::new());
        for &work in work {
            if let Some((one, wr)) = self.describe(slot, work)? {
                described.push(one);
                wrs.push(wr);
            }
        }
        if wrs.is_empty() {
            return Ok(());
        }
        let room = self.qps[slot].any.rooms().0;
        let n = wrs.len();
        let mut any = self.qps[slot].any.take();
        let (posted, form) = match &mut any {
            Any::Rts(qp) => post(qp, described, form),
            Any::Draining(qp) => post(qp, described, form),
            Any::Sqd(qp) => post(qp, described, form),
            Any::Error(qp) => post(qp, described, form),
            _ => unreachable!("a state that posts"),
        };
        self.qps[slot].any = any;
        if P::SELECTIVE {
            let last = wrs.last_mut().expect("one at least");
            last.signaled |= form != Form::Unsignaled || room == n;
        }
        if form == Form::DroppedList {
            return self.go_home(wrs);
        }
        let (accepted, unknown) =
            self.settle_post(posted, &wrs, room, self.qps[slot].poisoned.0)?;
        if unknown {
            self.qps[slot].poisoned.0 = true;
        }
        let id = self.qps[slot].life;
        for (i, mut wr) in wrs.into_iter().enumerate() {
            if i >= accepted {
                continue;
            }
            wr.unsure = unknown;
            for &buffer in &wr.buffers {
                self.places.go(buffer, Place::Program, Place::Sends(id))?;
            }
            self.announce(slot, &wr);
            self.life(slot).sends.push_back(wr);
        }
        Ok(())
    }

    /// Compares the result of a post with the legal ones. Returns how many requests the device owns
    /// now, and whether the outcome is unknown. Rejected entries are freed or kept.
    fn settle_post(
        &mut self,
        posted: Posted,
        wrs: &[Wr],
        room: usize,
        poisoned: bool,
    ) -> Check<(usize, bool)> {
        let n = wrs.len();
        let error = match posted {
            Ok(()) => {
                hold!(room >= n && !poisoned, "a post of {n} where {room} fit was not refused");
                return Ok((n, false));
            }
            Err(error) => error,
        };
        self.tally.refused += 1;
        let kind = error.kind();
        let said = error.to_string();
        let index = error.accepted();
        let ids = |from: usize| wrs[from..].iter().flat_map(|wr| wr.buffers.clone());
        let mut back = Vec::new();
        for entry in error.into_rejected() {
            for buf in buffers_of(entry) {
                match buf {
                    Ok(buf) => {
                        back.push(*buf.context());
                        self.held.push(buf);
                    }
                    // A shared buffer has no visible number; it was freed with its handle.
                    Err(()) => back.push(u32::MAX),
                }
            }
        }
        let accepted = match kind {
            PostErrorKind::Refused { errno } => {
                let meant =
                    |fault| matches!(fault, loopback::Fault::Refuse { errno: e } if e == errno);
                hold!(self.config.has(meant), "refused, but by no fault: {said}");
                hold!(index < n, "refused at {index} of {n}");
                index
            }
            PostErrorKind::OutcomeUnknown { errno } => {
                let meant = |fault| matches!(fault, loopback::Fault::OutcomeUnknown { errno: e, .. } if e == errno);
                hold!(self.config.has(meant), "no outcome, but by no fault: {said}");
                hold!(back.is_empty(), "entries came back although the outcome is unknown");
                return Ok((n, true));
            }
            PostErrorKind::QueueFull { .. } | PostErrorKind::CqFull { .. } => {
                hold!(room < n, "{said}, but {room} fit");
                0
            }
            PostErrorKind::Poisoned => {
                hold!(poisoned, "{said}, but every post had an outcome");
                0
            }
            other => return Err(format!("a post failed: {other:?}")),
        };
        let must: Vec<u32> = wrs[accepted..]
            .iter()
            .flat_map(|wr| match wr.is_shared || self.places.is_piece(wr) {
                true => vec![u32::MAX],
                false => wr.buffers.clone(),
            })
            .collect();
        // A full list returns the request that did not fit; earlier ones are freed.
        let is_full =
            matches!(kind, PostErrorKind::QueueFull { .. } | PostErrorKind::CqFull { .. });
        let is_list = is_full && n > 1;
        hold!(
            back == must || is_list && back.iter().all(|buffer| must.contains(buffer)),
            "{said}: {back:?} came back of {must:?}"
        );
        for buffer in ids(accepted) {
            if !self.held.iter().any(|buf| *buf.context() == buffer) {
                self.places.go(buffer, Place::Program, Place::Home)?;
            }
        }
        Ok((accepted, false))
    }

    fn go_home(&mut self, wrs: Vec<Wr>) -> Check {
        for buffer in wrs.into_iter().flat_map(|wr| wr.buffers) {
            self.places.go(buffer, Place::Program, Place::Home)?;
        }
        Ok(())
    }

    /// A message is in transit from now on.
    fn announce(&mut self, slot: usize, wr: &Wr) {
        if matches!(wr.what, What::Write | What::WriteImm) && !T::RELIABLE {
            let region = &mut self.regions[wr.region].1;
            region.written.entry(wr.at / PIECE).or_default().insert(wr.number);
        }
        if matches!(wr.what, What::Send | What::SendImm | What::WriteImm) {
            let message = Message {
                number: wr.number,
                from: self.qps[slot].qpn,
                len: wr.len,
                imm: wr.what != What::Send,
                write: wr.what == What::WriteImm,
                acknowledged: false,
                doubtful: wr.unsure,
                failed: false,
                seen: 0,
                drained: false,
            };
            self.streams.entry(wr.to).or_default().0.push_back(message);
        }
    }

    pub fn receive(&mut self, slot: usize, form: Form, into: &[Into]) -> Check {
        use Any::*;
        if !P::SHARED
            && !matches!(
                self.qps[slot].any,
                Init(_) | Rtr(_) | Rts(_) | Draining(_) | Sqd(_) | Sqe(_)
            )
        {
            return Ok(());
        }
        let (mut receives, mut wrs) = (Vec::new(), Vec::new());
        let most = if P::SHARED && form == Form::Chain {
            2
        } else if P::SHARED {
            1
        } else {
            8
        };
        for &into in into.iter().take(most) {
            let may_be_nothing = self.config.bufferless && self.config.short && !P::SHARED;
            if into == Into::Nothing && may_be_nothing && form != Form::Chain {
                receives.push(Receive::Nothing);
                wrs.push(self.receive_wr(Vec::new()));
                continue;
            }
            let pair = into == Into::Pair && form != Form::Chain;
            let Some(a) = self.take_buffer()? else { break };
            let b = if pair { self.take_buffer()? } else { None };
            let receive = match b {
                Some(b) => Receive::Pair([a, b]),
                None => Receive::Buf(a),
            };
            let buffers = match &receive {
                Receive::Buf(buf) => vec![*buf.context()],
                Receive::Pair([a, b]) => vec![*a.context(), *b.context()],
                Receive::Nothing => Vec::new(),
            };
            receives.push(receive);
            wrs.push(self.receive_wr(buffers));
        }
        if wrs.is_empty() {
            return Ok(());
        }
        let chain = form == Form::Chain && (!P::SHARED || wrs.len() == 2);
        let n = wrs.len();
        if P::SHARED {
            let posted = self.srq.post(receives, chain);
            let (accepted, unknown) = self.settle_post(posted, &wrs, n, self.srq_poisoned)?;
            self.srq_poisoned |= unknown;
            for (i, mut wr) in wrs.into_iter().enumerate() {
                if i < accepted {
                    for &buffer in &wr.buffers {
                        self.places.go(buffer, Place::Program, Place::Receives(0))?;
                    }
                    wr.unsure = unknown;
                    self.srq_posted.push(wr);
                }
            }
            return Ok(());
        }
        let room = self.qps[slot].any.rooms().1;
        let mut any = self.qps[slot].any.take();
        let posted = match &mut any {
            Init(qp) => P::receive(qp, receives, chain),
            Rtr(qp) => P::receive(qp, receives, chain),
            Rts(qp) => P::receive(qp, receives, chain),
            Draining(qp) => P::receive(qp, receives, chain),
            Sqd(qp) => P::receive(qp, receives, chain),
            Sqe(qp) => P::receive(qp, receives, chain),
            _ => unreachable!("a state that receives"),
        };
        self.qps[slot].any = any;
        let (accepted, unknown) =
            self.settle_post(posted, &wrs, room, self.qps[slot].poisoned.1)?;
        self.qps[slot].poisoned.1 |= unknown;
        let id = self.qps[slot].life;
        for mut wr in wrs.into_iter().take(accepted) {
            for &buffer in &wr.buffers {
                self.places.go(buffer, Place::Program, Place::Receives(id))?;
            }
            wr.unsure = unknown;
            self.life(slot).recvs.push_back(wr);
        }
        Ok(())
    }

    fn receive_wr(&self, buffers: Vec<u32>) -> Wr {
        Wr {
            number: 0,
            buffers,
            signaled: true,
            what: What::Send,
            len: 0,
            at: 0,
            region: 0,
            operands: (0, 0),
            to: 0,
            is_shared: false,
            unsure: false,
        }
    }
}

/// The buffers of an entry; `Err` for a shared one, which is dropped.
pub fn buffers_of(entry: Held) -> Vec<Result<WithId, ()>> {
    match entry {
        AnyBuf::Buf(buf) => vec![Ok(buf)],
        AnyBuf::List(list) => list.map(|any| any.into_buf().ok_or(())).collect(),
        AnyBuf::Shared(_) | AnyBuf::Open(_) => vec![Err(())],
        AnyBuf::Window(_) | AnyBuf::ReadOnlyPiece(_) | AnyBuf::Implicit(_) => vec![Err(())],
    }
}

/// Posts in this form, or in the nearest possible one, which is returned.
fn post<T: Wire<P>, P: Kind, S: rules::CanPostSend>(
    qp: &mut QueuePair<T, S, P>,
    mut work: Vec<Described>,
    form: Form,
) -> (Posted, Form) {
    let mut rest = match form {
        Form::One | Form::Unsignaled if work.len() == 1 => {
            let unsignaled = form == Form::Unsignaled;
            match T::one(qp, work.remove(0), unsignaled) {
                Ok(posted) => return (posted, if P::SELECTIVE { form } else { Form::One }),
                Err(work) => vec![work],
            }
        }
        Form::Chain => match T::chain(qp, work) {
            Ok(posted) => return (posted, Form::Chain),
            Err(work) => work,
        },
        _ => work,
    };
    let inline: Vec<[u8; INLINE]> =
        rest.iter().map(|work| content(work.number, INLINE).try_into().expect("as many")).collect();
    let mut slots = SendSlots::<8, 2>::new();
    let mut list = qp.send_list(&mut slots);
    for (work, inline) in rest.drain(..).zip(&inline) {
        if let Err(error) = T::push(&mut list, work, inline) {
            return (Err(error), Form::List);
        }
    }
    if form == Form::DroppedList {
        return (Ok(()), form);
    }
    (list.post(), Form::List)
}
