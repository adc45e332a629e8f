//! The bounds of posting and other calls on a queue pair, by transport, state and profile.

use super::{AnyQueuePair, QueuePair};
use crate::allows::{RuledBy, call};
use crate::memory::Owned;
use crate::post::chain::SendPost;
use crate::post::list::SendList;
use crate::profile::Profile;
use crate::rules::{
    CanFail, CanPostRecv, CanPostSend, HasBothQueues, HasRecvQueue, LeavesUnsignaled, PostOn,
    StopsSending, TakesDestinations, UsesOwnQueue, UsesPostSend,
};
use crate::terms::state::State;
use crate::terms::transport::Transport;
use crate::work::data::Fits;
use crate::work::limits::Max;

allows! {
    [Q: RuledBy<call::ToError, Part: CanFail>] Q: ToError;
    [Q: RuledBy<call::IntoSqe, Part: StopsSending>] Q: IntoSqe;
    [T: TakesDestinations, S: State, P: Profile] QueuePair<T, S, P>: AddAddressHandle;
    [T: Transport, S: CanPostSend, P: Profile] QueuePair<T, S, P>: PostSend;
    [T: Transport, S: CanPostRecv, P: Profile<Receive: HasRecvQueue>] QueuePair<T, S, P>: PostRecv;
    [Q: RuledBy<call::PostUnsignaled, Part: LeavesUnsignaled>] Q: PostUnsignaled;
    [T: HasBothQueues, P: Profile<Receive: UsesOwnQueue, Posting: UsesPostSend>] P: QpFromRaw<T>;
    [T: Transport, S: State, P: Profile, O: PostOn<T>] QueuePair<T, S, P>: DataInOrder<O>;
    [T: Transport, S: State, P: Profile, W: Fits<Max<G>, P::MaxInline>, const G: usize]
        QueuePair<T, S, P>: PostSendList<W, G>;
    [W: Fits<Max<G>, Max<0>>, const G: usize] W: PostRecvList<W, G>;
}

ruled_by! { ToError:
    [T: Transport, S: State, P: Profile] QueuePair<T, S, P>, S;
}

ruled_by! { IntoSqe:
    [T: Transport, S: State, P: Profile] QueuePair<T, S, P>, T;
    [T: Transport, P: Profile] AnyQueuePair<T, P>, T;
}

ruled_by! { PostUnsignaled:
    [T: Transport, S: State, P: Profile] QueuePair<T, S, P>, P::Signaling;
    [T: Transport, P: Profile] SendPost<'_, T, P>, P::Signaling;
    [T: Transport, P: Profile<Entry: Owned>, const G: usize] SendList<'_, T, P, G>, P::Signaling;
}
