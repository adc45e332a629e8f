//! The parts that a profile decides: how completions release, and how receives are posted.

use proverbs::prelude::*;
use proverbs::rules::CanPostRecv;
use proverbs::state::State;
use proverbs::transport::Transport;

use crate::wire::*;

/// The parts that a profile's signaling and receive source decide.
pub trait Kind: Profile<Entry = Held> {
    const SELECTIVE: bool;
    const SHARED: bool;

    fn complete<'cq, T: Transport, S: State>(
        qp: &mut QueuePair<T, S, Self>,
        completion: Completion<'cq, Held>,
    ) -> Settled<'cq>
    where
        Self: Sized;

    fn receive<T: Transport, S: CanPostRecv>(
        qp: &mut QueuePair<T, S, Self>,
        receives: Vec<Receive>,
        chain: bool,
    ) -> Posted
    where
        Self: Sized;
}

/// The memory for a receive.
pub enum Receive {
    Buf(WithId),
    Pair([WithId; 2]),
    Nothing,
}

macro_rules! kind {
    ($profile:ty, $selective:ident, $shared:ident) => {
        impl Kind for $profile {
            const SELECTIVE: bool = kind!(@is $selective);
            const SHARED: bool = kind!(@is $shared);

            fn complete<'cq, T: Transport, S: State>(
                qp: &mut QueuePair<T, S, Self>,
                completion: Completion<'cq, Held>,
            ) -> Settled<'cq> {
                kind!(@complete $selective, qp, completion)
            }

            fn receive<T: Transport, S: CanPostRecv>(
                qp: &mut QueuePair<T, S, Self>,
                receives: Vec<Receive>,
                chain: bool,
            ) -> Posted {
                kind!(@receive $shared, qp, receives, chain)
            }
        }
    };
    (@is yes) => { true };
    (@is no) => { false };
    (@complete yes, $qp:ident, $completion:ident) => {
        $qp.complete($completion).map(|completed| {
            let status = completed.status.map_err(|error| error.status);
            (status, completed.released.collect())
        })
    };
    (@complete no, $qp:ident, $completion:ident) => {{
        let _ = $qp;
        Err($completion)
    }};
    (@receive yes, $qp:ident, $receives:ident, $chain:ident) => {{
        let _ = ($qp, $receives, $chain);
        Ok(())
    }};
    (@receive no, $qp:ident, $receives:ident, $chain:ident) => {
        receive_list!($receives, $chain, |wr| $qp.post_recv(wr), |a, b| post_recv!($qp, [a, b]),
            |slots| $qp.recv_list(slots))
    };
}

/// Posts receives one by one, as a chain of two, or as a list; the error has the rejected ones.
macro_rules! receive_list {
    ($receives:ident, $chain:ident, |$wr:ident| $one:expr, |$a:ident, $b:ident| $two:expr, |$slots:ident| $list:expr) => {{
        let mut receives = $receives;
        if receives.len() == 1 {
            return match receives.remove(0) {
                Receive::Buf(buf) => {
                    let $wr = wr::Recv::new(buf);
                    $one
                }
                Receive::Pair(pair) => {
                    let $wr = wr::Recv::new(pair);
                    $one
                }
                Receive::Nothing => {
                    let $wr = wr::Recv::empty();
                    $one
                }
            };
        }
        let bufs = receives.len() == 2 && receives.iter().all(|r| matches!(r, Receive::Buf(_)));
        if $chain && bufs {
            let (Some(Receive::Buf(b)), Some(Receive::Buf(a))) = (receives.pop(), receives.pop())
            else {
                unreachable!("two buffers")
            };
            let ($a, $b) = (wr::Recv::new(a), wr::Recv::new(b));
            return $two;
        }
        let mut room = RecvSlots::<8, 2>::new();
        let $slots = &mut room;
        let mut list = $list;
        for receive in receives {
            match receive {
                Receive::Buf(buf) => list.push(wr::Recv::new(buf))?,
                Receive::Pair(pair) => list.push(wr::Recv::new(pair))?,
                Receive::Nothing => list.push(wr::Recv::empty())?,
            }
        }
        list.post()
    }};
}

kind!(AllOwn, no, no);
kind!(SelectiveOwn, yes, no);
kind!(AllShared, no, yes);
kind!(SelectiveShared, yes, yes);
