//! The calls that queue pairs allow by their transport, state and profile.

use super::{AnyQueuePair, QueuePair, XrcTarget};
use crate::allows::{Allows, Seal, call};
use crate::profile::Profile;
use crate::rules::{
    CanFail, HasRate, HasRecvQueue, LeavesUnsignaled, PostOn, StopsSending, TakesDestinations,
    TakesEce, UsesNoQueue, UsesOwnQueue, UsesPostSend,
};
use crate::terms::state::{Reset, State};
use crate::terms::transport::{Transport, Xrc};
use crate::work::data::Fits;
use crate::work::limits::Max;

allows! {
    [T: Transport, S: CanFail, P: Profile] QueuePair<T, S, P>: ToError;
    [S: CanFail] XrcTarget<S>: ToError;
    [T: StopsSending, S: State, P: Profile] QueuePair<T, S, P>: IntoSqe;
    [T: StopsSending, P: Profile] AnyQueuePair<T, P>: IntoSqe;
    [T: Transport, S: TakesEce, P: Profile] QueuePair<T, S, P>: SetEce;
    [T: Transport, S: HasRate, P: Profile] QueuePair<T, S, P>: LimitRate;
    [T: TakesDestinations, S: State, P: Profile] QueuePair<T, S, P>: AddAddressHandle;
    [T: Transport, S: State, P: Profile<Receive: HasRecvQueue>] QueuePair<T, S, P>: PostRecv;
    [T: Transport, S: State, P: Profile<Signaling: LeavesUnsignaled>] QueuePair<T, S, P>:
        PostUnsignaled;
    [P: Profile<Receive: UsesNoQueue>] QueuePair<Xrc, Reset, P>: CreateXrcInitiator;
    [P: Profile<Receive: UsesOwnQueue, Posting: UsesPostSend>] P: QpFromRaw;
}

impl<T, S, P, O> Allows<call::DataInOrder<O>> for QueuePair<T, S, P>
where
    T: Transport,
    S: State,
    P: Profile,
    O: PostOn<T>,
{
    const SEAL: Seal = Seal;
}

impl<T, S, P, W, const G: usize> Allows<call::PostSendList<W, G>> for QueuePair<T, S, P>
where
    T: Transport,
    S: State,
    P: Profile,
    W: Fits<Max<G>, P::MaxInline>,
{
    const SEAL: Seal = Seal;
}
