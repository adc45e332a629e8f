//! Errors as programs collect them: every one goes through `?` into what threads may share.

use std::error::Error;

use proverbs::bounded::OutOfRange;
use proverbs::completion::WcError;
use proverbs::endpoint::*;
use proverbs::memory::*;
use proverbs::post::RawPostError;
use proverbs::prelude::*;
use proverbs::transport::Transport;

fn goes<E: Error + Send + Sync + 'static>() {}

fn goes_of_state<T: Transport, S: state::State>() {
    goes::<Refused<QueuePair<T, S>>>();
}

#[test]
fn every_error_goes_into_a_box_that_threads_share() {
    goes::<proverbs::Error>();
    goes::<OutOfRange>();
    goes::<WcError>();
    goes::<RawPostError>();
    goes::<PostError<Buf>>();
    goes::<PostError<BufList>>();
    goes::<PostError<SharedBuf>>();
    goes::<PostError<AnyBuf>>();
    goes::<PostError<Buf<String>>>();
    goes::<Refused<Context>>();
    goes::<Refused<ProtectionDomain>>();
    goes::<Refused<CompletionQueue>>();
    goes::<Refused<CompletionChannel>>();
    goes::<Refused<SharedReceiveQueue<Rc>>>();
    goes::<Refused<AddressHandle>>();
    goes::<Refused<MemoryRegion<RemoteAll>>>();
    goes::<Refused<Pool>>();
    goes::<Refused<Arena>>();
    goes::<Refused<DmaBuf>>();
    goes::<Refused<Dm>>();
    goes::<ReregError<MemoryRegion<RemoteAll>, Vec<u8>, Vec<u8>>>();
    goes::<JoinError<()>>();
    goes::<SplitError>();
    goes::<Mismatch>();
    goes::<OutOfBounds>();
    goes::<TooLong>();
    goes::<ConnectError>();
    goes::<ExchangeError>();
    goes::<RegionError>();
    goes::<NoSuchRegion>();
    goes::<Refused<Stage<DefaultProfile>, ConnectError>>();
    goes::<WireError>();
    goes_of_state::<Rc, Rts>();
    goes_of_state::<Uc, Init>();
    goes_of_state::<Ud, state::Err>();
}
