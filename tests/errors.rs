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
    #[cfg(feature = "zerocopy")]
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

/// What was refused is had by value, and dropped where only the reason is asked for.
#[test]
fn what_was_refused_comes_out_or_goes() {
    let proverbs::loopback::Pair { context, pd: _pd, mut a, b: _b, cq: _cq, pool, .. } =
        proverbs::loopback::pair().unwrap();
    let (context, error) = context.destroy().unwrap_err().into_parts();
    assert_eq!(error.errno(), Some(16));
    let context = context.destroy().unwrap_err().into_object();
    let of_threads: Box<dyn Error + Send + Sync> = context.destroy().unwrap_err().into();
    assert!(of_threads.to_string().starts_with("ibv_close_device: EBUSY"));
    let full = loop {
        let buf = pool.take().expect("16 buffers, and room for 8");
        if let Err(refused) = a.post_send(wr::Send::new(buf)) {
            break refused;
        }
    };
    assert_eq!(pool.available(), 7);
    let (text, full) = (full.to_string(), full.without_entries());
    assert_eq!((full.to_string(), pool.available()), (text, 8));
    assert_eq!(full.into_rejected().count(), 0);
}
