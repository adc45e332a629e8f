//! How each transport posts, with each profile. Macros write everything out, since types decide
//! what may be posted.

use proverbs::device::AhIndex;
use proverbs::post::SendList;
use proverbs::prelude::*;
use proverbs::qp::{Drain, RcReturn, Transition, UcResume, UcReturn, UdReturn};
use proverbs::rules::CanPostSend;
use proverbs::transport::Transport;

use crate::program::What;
use crate::support::Device;
use crate::wire::*;
use crate::world::INLINE;

macro_rules! source {
    ($data:expr, |$d:ident| $body:expr) => {
        match $data {
            Payload::Buf($d) => $body,
            Payload::Pair($d) => $body,
            Payload::Shared($d) => $body,
            Payload::Open($d) => $body,
            Payload::Inline | Payload::Empty => {
                let $d = wr::Empty;
                $body
            }
        }
    };
}

macro_rules! sink {
    ($data:expr, |$d:ident| $body:expr) => {
        match $data {
            Payload::Buf($d) => $body,
            Payload::Pair($d) => $body,
            _ => {
                let $d = wr::Empty;
                $body
            }
        }
    };
}

/// `.signaled()` if the profile has it and the flag says so.
macro_rules! marked {
    (yes, $flag:expr, $wr:expr, |$x:ident| $push:expr) => {
        if $flag {
            let $x = $wr.signaled();
            $push
        } else {
            let $x = $wr;
            $push
        }
    };
    (no, $flag:expr, $wr:expr, |$x:ident| $push:expr) => {{
        let _ = $flag;
        let $x = $wr;
        $push
    }};
}

macro_rules! create {
    (no, $t:ident, $parents:ident, $srq:ident) => {{
        let _ = $srq;
        $parents.pd.create_qp($parents.send, $parents.recv, $parents.depth)
    }};
    (yes, $t:ident, $parents:ident, $srq:ident) => {{
        let AnySrq::$t(srq) = $srq else { unreachable!("the world has a shared receive queue") };
        let Parents { pd, send, recv, depth } = $parents;
        pd.create_qp(send, recv, Depth::on_srq(depth.send, srq))
    }};
}

macro_rules! create_srq {
    (no, $t:ident, $pd:ident, $pool:ident) => {{
        let _ = ($pd, $pool);
        AnySrq::None
    }};
    (yes, $t:ident, $pd:ident, $pool:ident) => {
        AnySrq::$t($pd.create_srq($pool).expect("a shared receive queue"))
    };
}

macro_rules! unsignaled {
    (yes, $qp:ident, $wr:expr) => {
        $qp.post_send_unsignaled($wr).map(|_| ())
    };
    (no, $qp:ident, $wr:expr) => {
        $qp.post_send($wr)
    };
}

/// The buffers of two or three plain sends.
macro_rules! bufs {
    ($work:ident) => {{
        let plain =
            |w: &Described| w.what == What::Send && !w.flag && matches!(w.data, Payload::Buf(_));
        if !(2..=3).contains(&$work.len()) || !$work.iter().all(plain) {
            return Err($work);
        }
        $work.into_iter().map(|w| match w.data {
            Payload::Buf(buf) => (buf, w.to),
            _ => unreachable!("all are buffers"),
        })
    }};
}

macro_rules! connected {
    ($t:ident, $profile:ty, $selective:ident, $shared:ident, $reliable:literal) => {
        impl Wire<$profile> for $t {
            const RELIABLE: bool = $reliable;

            fn create_srq(pd: &ProtectionDomain, pool: &Pool<u32>) -> AnySrq {
                create_srq!($shared, $t, pd, pool)
            }

            fn create(parents: Parents<'_>, srq: &AnySrq) -> Created<Self, $profile> {
                create!($shared, $t, parents, srq)
            }

            fn push<'d>(
                list: &mut SendList<'d, Self, $profile, 2>,
                w: Described,
                bytes: &'d [u8; INLINE],
            ) -> Posted {
                let (to, imm) = (w.remote.write(), w.imm);
                match (w.what, w.data) {
                    (What::Send, Payload::Inline) => list.push(wr::Send::inline(bytes)),
                    (What::SendImm, Payload::Inline) => {
                        list.push(wr::SendWithImm::inline(bytes, imm))
                    }
                    (What::Write, Payload::Inline) => {
                        list.push(wr::RdmaWrite::inline(bytes, to))
                    }
                    (What::WriteImm, Payload::Inline) => {
                        list.push(wr::RdmaWriteWithImm::inline(bytes, to, imm))
                    }
                    (What::Send, data) => source!(data, |d| {
                        marked!($selective, w.flag, wr::Send::new(d), |x| list.push(x))
                    }),
                    (What::SendImm, data) => source!(data, |d| {
                        list.push(wr::SendWithImm::new(d, imm).solicited())
                    }),
                    (What::Write, data) => source!(data, |d| {
                        marked!($selective, w.flag, wr::RdmaWrite::new(d, to), |x| list.push(x))
                    }),
                    (What::WriteImm, data) => {
                        source!(data, |d| list.push(wr::RdmaWriteWithImm::new(d, to, imm)))
                    }
                    (what, data) => connected!(@fetch $t, list, what, data, w),
                }
            }

            fn chain<S: CanPostSend>(
                qp: &mut QueuePair<Self, S, $profile>,
                work: Vec<Described>,
            ) -> Result<Posted, Vec<Described>> {
                let mut bufs = bufs!(work);
                let mut next = || bufs.next().map(|(buf, _)| wr::Send::new(buf));
                Ok(match (next(), next(), next()) {
                    (Some(a), Some(b), Some(c)) => post_send!(qp, [a, b, c]),
                    (Some(a), Some(b), None) => post_send!(qp, [a, b]),
                    _ => unreachable!("two or three"),
                })
            }

            fn one<S: CanPostSend>(
                qp: &mut QueuePair<Self, S, $profile>,
                w: Described,
                unsignaled: bool,
            ) -> Result<Posted, Described> {
                let to = w.remote.write();
                Ok(match (w.what, w.data) {
                    (What::Send, Payload::Buf(buf)) if unsignaled => {
                        unsignaled!($selective, qp, wr::Send::new(buf))
                    }
                    (What::Send, Payload::Buf(buf)) => qp.post_send(wr::Send::new(buf)),
                    (What::Write, Payload::Buf(buf)) if unsignaled => {
                        unsignaled!($selective, qp, wr::RdmaWrite::new(buf, to))
                    }
                    (What::Write, Payload::Buf(buf)) => qp.post_send(wr::RdmaWrite::new(buf, to)),
                    (_, data) => return Err(Described { data, ..w }),
                })
            }

            fn resume(qp: Any<Self, $profile>) -> Any<Self, $profile> {
                connected!(@resume $t, qp)
            }

            fn stop(qp: QueuePair<Self, Rts, $profile>) -> Any<Self, $profile> {
                stop(qp)
            }
        }
    };
    (@fetch Rc, $list:ident, $what:ident, $data:ident, $w:ident) => {{
        let (compare, swap) = $w.operands;
        let from = $w.remote.read();
        let cell = || $w.remote.atomic(0).expect("an aligned cell");
        match ($what, $data) {
            (What::Swap, Payload::Buf(buf)) => {
                $list.push(wr::CmpAndSwp::new(buf, cell(), wr::CompareSwap { compare, swap }))
            }
            (What::Add, Payload::Buf(buf)) => $list.push(wr::FetchAndAdd::new(buf, cell(), compare)),
            (_, data) if $w.flag => sink!(data, |d| $list.push(wr::RdmaRead::new(d, from).fence())),
            (_, data) => sink!(data, |d| $list.push(wr::RdmaRead::new(d, from))),
        }
    }};
    (@fetch Uc, $list:ident, $what:ident, $data:ident, $w:ident) => {{
        let _ = ($list, $what, $data, $w.operands);
        unreachable!("UC does not fetch")
    }};
    (@resume Rc, $qp:ident) => {
        match $qp {
            Any::Draining(qp) => match qp.into_sqd() {
                Ok(qp) => Any::Sqd(qp),
                Err(refused) => Any::Draining(refused.into_object()),
            },
            Any::Sqd(qp) => match qp.modify(RcReturn::default()) {
                Ok(qp) => Any::Rts(qp),
                Err(refused) => Any::Sqd(refused.into_object()),
            },
            other => other,
        }
    };
    (@resume Uc, $qp:ident) => {
        match $qp {
            Any::Sqe(qp) => match qp.modify(UcResume::default()) {
 Ok(qp) => Any::Rts(qp),
 Err(refused) => Any::Sqe(refused.into_object()),
 },
Any::Draining(qp) => match qp.into_sqd() {
                Ok(qp) => Any::Sqd(qp),
                Err(refused) => Any::Draining(refused.into_object()),
            },
            Any::Sqd(qp) => match qp.modify(UcReturn::default()) {
                Ok(qp) => Any::Rts(qp),
                Err(refused) => Any::Sqd(refused.into_object()),
            },
            Any::Rts(qp) => match qp.into_sqe() {
                Ok(qp) => Any::Sqe(qp),
                Err(refused) => Any::Rts(refused.into_object()),
            },
            other => other,
        }
    };
}

/// To SQD, unless the device has moved it before.
fn stop<T: Transport, P: Profile>(qp: QueuePair<T, Rts, P>) -> Any<T, P>
where
    Drain: Transition<T, Rts, P, To = Draining>,
{
    match qp.modify(Drain { notify: false }) {
        Ok(qp) => Any::Draining(qp),
        Err(refused) => Any::Rts(refused.into_object()),
    }
}

connected!(Rc, AllOwn, no, no, true);
connected!(Rc, SelectiveOwn, yes, no, true);
connected!(Rc, AllShared, no, yes, true);
connected!(Rc, SelectiveShared, yes, yes, true);
connected!(Uc, AllOwn, no, no, false);
connected!(Uc, SelectiveOwn, yes, no, false);

macro_rules! datagram {
    ($profile:ty, $selective:ident, $shared:ident) => {
        impl Wire<$profile> for Ud {
            const RELIABLE: bool = false;

            fn create_srq(pd: &ProtectionDomain, pool: &Pool<u32>) -> AnySrq {
                create_srq!($shared, Ud, pd, pool)
            }

            fn create(parents: Parents<'_>, srq: &AnySrq) -> Created<Self, $profile> {
                create!($shared, Ud, parents, srq)
            }

            fn push<'d>(
                list: &mut SendList<'d, Self, $profile, 2>,
                w: Described,
                bytes: &'d [u8; INLINE],
            ) -> Posted {
                let (to, imm) = (w.to.expect("a destination"), w.imm);
                match (w.what, w.data) {
                    (What::Send, Payload::Inline) => {
                        list.push(wr::Send::inline(bytes).to(to))
                    }
                    (_, Payload::Inline) => {
                        list.push(wr::SendWithImm::inline_slice(bytes, imm).to(to))
                    }
                    (What::Send, data) => source!(data, |d| {
                        marked!($selective, w.flag, wr::Send::new(d).to(to), |x| list.push(x))
                    }),
                    (_, data) => source!(data, |d| {
                        list.push(wr::SendWithImm::new(d, imm).to(to).solicited())
                    }),
                }
            }

            fn chain<S: CanPostSend>(
                qp: &mut QueuePair<Self, S, $profile>,
                work: Vec<Described>,
            ) -> Result<Posted, Vec<Described>> {
                let mut bufs = bufs!(work);
                let mut next =
                    || bufs.next().map(|(buf, to)| wr::Send::new(buf).to(to.expect("a destination")));
                Ok(match (next(), next(), next()) {
                    (Some(a), Some(b), Some(c)) => post_send!(qp, [a, b, c]),
                    (Some(a), Some(b), None) => post_send!(qp, [a, b]),
                    _ => unreachable!("two or three"),
                })
            }

            fn one<S: CanPostSend>(
                qp: &mut QueuePair<Self, S, $profile>,
                w: Described,
                unsignaled: bool,
            ) -> Result<Posted, Described> {
                let to = w.to.expect("a destination");
                Ok(match (w.what, w.data) {
                    (What::Send, Payload::Buf(buf)) if unsignaled => {
                        unsignaled!($selective, qp, wr::Send::new(buf).to(to))
                    }
                    (What::Send, Payload::Buf(buf)) => qp.post_send(wr::Send::new(buf).to(to)),
                    (_, data) => return Err(Described { data, ..w }),
                })
            }

            fn resume(qp: Any<Self, $profile>) -> Any<Self, $profile> {
                match qp {
                    Any::Sqe(qp) => match qp.modify(UdReturn::default()) {
 Ok(qp) => Any::Rts(qp),
 Err(refused) => Any::Sqe(refused.into_object()),
 },
Any::Draining(qp) => match qp.into_sqd() {
                Ok(qp) => Any::Sqd(qp),
                Err(refused) => Any::Draining(refused.into_object()),
            },
            Any::Sqd(qp) => match qp.modify(UdReturn::default()) {
                Ok(qp) => Any::Rts(qp),
                Err(refused) => Any::Sqd(refused.into_object()),
            },
                    Any::Rts(qp) => match qp.into_sqe() {
                        Ok(qp) => Any::Sqe(qp),
                        Err(refused) => Any::Rts(refused.into_object()),
                    },
                    other => other,
                }
            }

            fn stop(qp: QueuePair<Self, Rts, $profile>) -> Any<Self, $profile> {
                stop(qp)
            }

            fn way_to(
                qp: &mut Any<Self, $profile>,
                dev: &Device,
                pd: &ProtectionDomain,
            ) -> Option<AhIndex> {
                let ah = pd.create_ah(dev.vector()).expect("an address handle");
                each!(qp, qp => qp.add_address_handle(ah).ok(), None)
            }
        }
    };
}

datagram!(AllOwn, no, no);
datagram!(SelectiveOwn, yes, no);
datagram!(AllShared, no, yes);
datagram!(SelectiveShared, yes, yes);
