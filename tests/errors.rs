//! Errors as programs collect them: every error converts with `?` into a type that threads may
//! share, and its object is returned.

use std::cell::RefCell;
use std::error::Error;
use std::fmt::Display;
use std::sync::Arc;

use proverbs::bounded::OutOfRange;
use proverbs::completion::WcError;
use proverbs::device::devices;
use proverbs::endpoint::*;
use proverbs::loopback::{Fabric, Fault, Script};
use proverbs::memory::*;
use proverbs::post::{PostErrorKind, PostFailure, RawPostError};
use proverbs::prelude::*;

fn goes<E: Error + Send + Sync + 'static>() {}

#[test]
fn every_error_without_an_object_converts_into_a_shareable_box() {
    goes::<proverbs::Error>();
    goes::<OutOfRange>();
    goes::<WcError>();
    goes::<RawPostError>();
    goes::<PostFailure>();
    goes::<JoinError>();
    goes::<SplitError>();
    #[cfg(feature = "zerocopy")]
    goes::<Mismatch>();
    goes::<OutOfBounds>();
    goes::<TooLong>();
    goes::<ConnectError>();
    goes::<ExchangeError>();
    goes::<RegionError>();
    goes::<NoSuchRegion>();
    goes::<WireError>();
}

/// The conversions that `?` needs, for each way in which programs collect errors.
trait Collected: Display + Into<Box<dyn Error>> + Into<Box<dyn Error + Send + Sync>> {}
impl<X> Collected for X where X: Display + Into<Box<dyn Error>> + Into<Box<dyn Error + Send + Sync>> {}

/// The conversions have no bounds on the object: not `Send`, not `Sync`, not `'static`.
#[test]
fn an_error_with_any_object_is_collected() {
    fn is_collected<X: Collected + Into<anyhow::Error> + Into<eyre::Report>>() {}
    fn any_object<T>() {
        is_collected::<Refused<T>>();
        is_collected::<Refused<T, ConnectError>>();
        is_collected::<Refused<T, JoinError>>();
    }
    fn any_entry<E: Entry>() {
        is_collected::<PostError<E>>();
    }
    fn any_memory<U, M, N>() {
        is_collected::<ReregError<U, M, N>>();
    }
    any_object::<&mut std::rc::Rc<()>>();
    any_entry::<Buf<std::rc::Rc<()>>>();
    any_memory::<&(), (), ()>();
}

/// Converts the result of `refuse` with `?` into each collection. While the error exists, one fewer
/// object is free than after it. The plain error `P` stays.
fn goes_home<X, P>(mut refuse: impl FnMut() -> X, home: impl Fn() -> usize)
where
    X: Collected,
    P: Error + Send + Sync + 'static,
    anyhow::Error: From<X>,
    eyre::Report: From<X>,
    Box<dyn Error>: From<X>,
    Box<dyn Error + Send + Sync>: From<X>,
{
    fn local<X>(error: X) -> Result<(), Box<dyn Error>>
    where
        Box<dyn Error>: From<X>,
    {
        Ok(Err(error)?)
    }
    fn shared<X>(error: X) -> Result<(), Box<dyn Error + Send + Sync>>
    where
        Box<dyn Error + Send + Sync>: From<X>,
    {
        Ok(Err(error)?)
    }
    fn into_anyhow<X>(error: X) -> anyhow::Result<()>
    where
        anyhow::Error: From<X>,
    {
        Ok(Err(error)?)
    }
    fn into_eyre<X>(error: X) -> eyre::Result<()>
    where
        eyre::Report: From<X>,
    {
        Ok(Err(error)?)
    }
    let mut one = |convert: &dyn Fn(X) -> (String, bool)| {
        let error = refuse();
        let (text, before) = (error.to_string(), home());
        assert_eq!(convert(error), (text, true));
        assert_eq!(home(), before + 1);
    };
    one(&|error| {
        let error = local(error).unwrap_err();
        (error.to_string(), error.is::<P>())
    });
    one(&|error| {
        let error = shared(error).unwrap_err();
        (error.to_string(), error.is::<P>())
    });
    one(&|error| {
        let error = into_anyhow(error).unwrap_err();
        (error.to_string(), error.is::<P>())
    });
    one(&|error| {
        let error = into_eyre(error).unwrap_err();
        (error.to_string(), error.is::<P>())
    });
}

profile! { Fast { threads: InLane } }

/// A queue pair of a lane stays on its thread. The plain error may leave it.
#[test]
fn a_buffer_of_a_lane_returns_to_its_pool() {
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let lane = pd.alloc_lane().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let cq: CompletionQueue<Buf, InLane> = lane.create_cq(3).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let create = || lane.create_qp::<Rc, Fast>(&cq, &cq, depth);
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    // The completion queue has room for one queue pair, which shows whether that was closed.
    let wrong = ConnectedInit { port: 3, ..init };
    goes_home::<_, proverbs::Error>(
        || create().unwrap().modify(wrong).unwrap_err(),
        || usize::from(create().is_ok()),
    );
    let mut qp = create().unwrap().modify(init).unwrap();
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    goes_home::<_, PostFailure>(
        || qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap_err(),
        || pool.available(),
    );
}

/// Neither its handle nor its context is `Send`.
#[test]
fn a_buffer_with_a_context_of_one_thread_returns_to_its_pool() {
    profile! { Counted { entry: Buf<std::rc::Rc<()>> } }
    let context = Fabric::new().open_device();
    let pd = context.alloc_pd().unwrap();
    let cq = context.create_cq(4).unwrap();
    let pool = pd.pool(64).contexts(|_| std::rc::Rc::new(())).create(4).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, Counted>(&cq, &cq, depth).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    let mut qp = qp.modify(init).unwrap();
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    goes_home::<_, PostFailure>(
        || qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap_err(),
        || pool.available(),
    );
    let pool = pd.pool(64).contexts(|_| std::rc::Rc::new(())).create(8).unwrap();
    let mut one = pool.take().unwrap();
    goes_home::<_, JoinError>(|| one.join(pool.take().unwrap()).unwrap_err(), || pool.available());
}

/// A piece keeps its region: once it is gone, the region can be deregistered.
#[test]
fn a_piece_is_dropped_with_its_error() {
    profile! { Pieces { entry: OpenBuf } }
    let proverbs::loopback::Pair { mut a, b: _b, cq: _cq, pd, .. } =
        proverbs::loopback::pair_of::<Pieces>().unwrap();
    let theirs = pd.register::<RemoteAll>(64).unwrap();
    let at = theirs.remote().write();
    while a.post_send(wr::RdmaWrite::new(theirs.piece(0, 8).unwrap(), at)).is_ok() {}
    let region = RefCell::new(None);
    goes_home::<_, PostFailure>(
        || {
            let ours = pd.register::<LocalWrite>(64).unwrap();
            let piece = ours.piece(0, 8).unwrap();
            region.replace(Some(ours));
            a.post_send(wr::RdmaWrite::new(piece, at)).unwrap_err()
        },
        || match region.take().unwrap().destroy() {
            Ok(_) => 1,
            Err(refused) => {
                region.replace(Some(refused.into_object()));
                0
            }
        },
    );
}

/// The memory of a refused creation, and the queue pair of a refused connection or destruction.
#[test]
fn refused_objects_are_closed() {
    let fabric = Fabric::new();
    let context = fabric.open_device();
    let pd = context.alloc_pd().unwrap();
    let memory: Arc<[u8]> = Arc::new([]); // a region cannot be empty
    goes_home::<_, proverbs::Error>(
        || pd.region::<RemoteRead>().create_in(memory.clone()).unwrap_err(),
        || 8 - Arc::strong_count(&memory),
    );
    // The completion queue has room for one queue pair, which shows whether that was closed.
    let cq = context.create_cq::<Buf>(3).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let create = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth);
    let closed = || usize::from(create().is_ok());
    let busy = || fabric.inject(Script::default().with(Fault::Busy.nth(0)));
    goes_home::<_, proverbs::Error>(
        || {
            let qp = create().unwrap();
            busy();
            qp.destroy().unwrap_err()
        },
        closed,
    );
    let gid = context.roce_v2_gid(1).unwrap().index();
    let numbers = (Qpn::try_from(17).unwrap(), Psn::try_from(0).unwrap());
    let other = Service::UnreliableConnection;
    let other = Endpoint::new(other, numbers.0, numbers.1, Mtu::Bytes1024).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() };
    goes_home::<_, ConnectError>(
        || {
            let qp = create().unwrap().modify(init).unwrap();
            RcConnector::new(qp, Some(gid)).unwrap().connect_to(&other).unwrap_err()
        },
        closed,
    );
}

/// anyhow's `context` needs the plain error.
#[test]
fn context_is_added_to_the_plain_error() {
    use anyhow::Context as _;
    fn destroy(context: Context) -> anyhow::Result<()> {
        context.destroy().map_err(Refused::into_error).context("at the end")
    }
    let context = Fabric::new().open_device();
    let _pd = context.alloc_pd().unwrap();
    let error = destroy(context).unwrap_err();
    assert_eq!(error.to_string(), "at the end");
    assert!(format!("{error:#}").starts_with("at the end: ibv_close_device: EBUSY"), "{error:#}");
}

/// Each message as it is printed: the verb, the request, what is possible, and what to do next.
#[test]
fn messages_name_the_remedy() {
    let proverbs::loopback::Pair { context, pd, mut a, b: _b, cq: _cq, pool, .. } =
        proverbs::loopback::pair().unwrap();
    let said = |error: &dyn Display, text: &str| assert_eq!(error.to_string(), text);
    let refused = Context::open("no such device").unwrap_err().to_string();
    // A machine without any device gets another message.
    let none = ["the kernel module ib_uverbs is not loaded", "the kernel has no RDMA device"];
    let named = ["no device is called \"no such device\""];
    let reasons = if devices().unwrap().is_empty() { &none[..] } else { &named };
    let says = |reason| refused.starts_with(&format!("ibv_open_device: {reason}"));
    assert!(reasons.iter().any(says), "{refused}");
    let open = pd.register::<LocalWrite>(64).unwrap();
    said(&open.piece(60, 8).unwrap_err(), "8 bytes at offset 60 exceed the region of 64 bytes");
    let beyond = 1 << 33;
    said(
        &open.piece(beyond, 8).unwrap_err(),
        "8 bytes at offset 8589934592 exceed the region of 64 bytes",
    );
    said(
        &open.piece(0, beyond).unwrap_err(),
        "8589934592 bytes at offset 0 exceed the 4294967294 that an element can have",
    );
    // The error for a cell of a local region does not say "remote", and the error for the peer's is
    // as clear.
    let region = pd.register::<RemoteAll>(64).unwrap();
    let odd = "offset 4 is not 8-byte aligned: an atomic needs an address that is a multiple of 8";
    said(&region.cell(4).unwrap_err(), odd);
    said(&region.remote().atomic(4).unwrap_err(), odd);
    said(&region.cell(64).unwrap_err(), "8 bytes at offset 64 exceed the region of 64 bytes");
    let small: CompletionQueue = context.create_cq(4).unwrap();
    let depth = Depth { send: 8, recv: 8 };
    let refused = pd.create_qp::<Rc, DefaultProfile>(&small, &small, depth).unwrap_err();
    said(
        &refused,
        "ibv_create_qp: the completion queue has room for 4 of the 17 entries these queues need: create it \
         with at least 17",
    );
    let full = loop {
        if let Err(refused) = a.post_send(wr::Send::new(pool.take().unwrap())) {
            break refused;
        }
    };
    said(
        &full,
        "ibv_post_send: work request 0: queue full: posting 1 work request, room for 0 (poll the \
         completion queue to free room)",
    );
    said(
        &proverbs::Error::from(Qkey::try_from(0x8000_0000).unwrap_err()),
        "attribute: Q_Key 2147483648 exceeds 2147483647 (its top bit makes it privileged: see `PrivilegedQkey`)",
    );
    said(
        &context.query_port(9).unwrap_err(),
        "ibv_query_port: EINVAL: Invalid argument (port 9 does not exist: this device has 1 port)",
    );
    let refused = context.query_gid(1, 200).unwrap_err().to_string();
    assert!(refused.ends_with("(GID index 200 does not exist: port 1 has 16)"), "{refused}");
    let refused = pd.create_pool(0, 8).unwrap_err().to_string();
    assert!(refused.ends_with("(cannot register 0 bytes)"), "{refused}");
    let refused = context.destroy().unwrap_err().to_string();
    assert!(refused.ends_with("(objects of it exist: drop them first)"), "{refused}");
    let refused = pd.create_pool(usize::MAX, 8).unwrap_err().to_string();
    assert!(refused.starts_with("ibv_reg_mr: "), "{refused}");
    assert!(!refused.contains("count"), "ibv_reg_mr has no count: {refused}");
}

/// Each reason of a rejected post: the request, what is possible, and what to do next.
#[test]
fn a_refused_post_names_the_remedy() {
    use PostErrorKind::*;
    let said = |kind: PostErrorKind, text: &str| assert_eq!(kind.to_string(), text, "{kind:?}");
    said(
        QueueFull { asked: 2, room: 1 },
        "queue full: posting 2 work requests, room for 1 (poll the completion queue to free room)",
    );
    said(
        CqFull { asked: 1, room: 0 },
        "completion queue full: posting 1 work request, room for 0 (poll it: each completion \
         frees an entry for any of its queue pairs)",
    );
    said(
        InlineTooLong { asked: 17, max: 16 },
        "an inline payload of 17 bytes exceeds the queue pair's max_inline of 16 (ask for more in \
         the profile, or send from a buffer)",
    );
    said(
        TooManySge { asked: 5, max: 4 },
        "a list of 5 buffers exceeds the 4 elements of a work request (ask for more in the profile \
         and in a list's slots, or post it in parts)",
    );
    said(
        ExceedsMessage { asked: 9000, max: 4096 },
        "a message of 9000 bytes exceeds the port's max_msg_sz of 4096 (send it in parts)",
    );
    said(
        ExceedsMtu { asked: 1025, max: 1024 },
        "a UD message of 1025 bytes exceeds the active MTU of 1024 (send it in parts, or on RC)",
    );
    said(
        ExceedsSlice { asked: 9, max: 8 },
        "an RDMA WRITE of 9 bytes exceeds the remote slice of 8 (write fewer, or have the peer \
         offer a longer slice)",
    );
    said(
        ExceedsBuffers { asked: 257, max: 256 },
        "an RDMA READ of a slice of 257 bytes exceeds the 256 of its buffers (read a part of the \
         slice, or into more buffers)",
    );
    said(
        AtomicExceedsBuffer { max: 3 },
        "the 8 bytes that an atomic returns exceed its buffer, which was narrowed to 3 (widen it, \
         or take another)",
    );
    said(
        PdMismatch,
        "a buffer belongs to another protection domain than the queue (take one of a pool of the \
         queue's domain)",
    );
    said(
        ForeignPool,
        "a buffer belongs to a pool that the shared receive queue does not use (take one of the \
         pool that the queue was created with)",
    );
    said(
        NoBuffer,
        "a receive of a shared receive queue needs a buffer (take one of the pool that the queue \
         was created with)",
    );
    said(
        UnknownAddressHandle,
        "the address handle was removed, or belongs to another queue pair (add one to this queue \
         pair by `add_address_handle`)",
    );
    said(
        ForeignWindow,
        "the memory window was allocated for another queue pair, or became invalid when this \
         queue pair was reset or could not be destroyed (allocate one by `alloc_mw` of this queue \
         pair)",
    );
    said(
        Poisoned,
        "an earlier post had no known outcome, or the device did not enter the error state: reset \
         or destroy the queue pair first",
    );
    said(
        OutcomeUnknown { errno: 5 },
        "EIO: Input/output error (no bad_wr: the provider did not say which work requests it \
         accepted, so their buffers stay in flight until the queue is reset or destroyed)",
    );
    said(
        NotOnIwarp,
        "EINVAL: Invalid argument (the device speaks iWARP, which has neither immediates nor \
         atomics: send a message instead)",
    );
    said(Refused { errno: 12 }, "ENOMEM: Cannot allocate memory");
    let raw = |verb, bad_wr| RawPostError { verb, errno: 12, bad_wr }.to_string();
    assert_eq!(
        raw("ibv_post_send", Some(2)),
        "ibv_post_send: work request 2: ENOMEM: Cannot allocate memory"
    );
    assert_eq!(
        raw("ibv_post_recv", None),
        "ibv_post_recv: ENOMEM: Cannot allocate memory (no bad_wr: the device may have \
         accepted all of them)"
    );
}

/// The buffer of an atomic is reported as narrowed, and a list with its full length.
#[test]
fn a_refusal_names_the_posted_entry() {
    profile! { Lists { entry: BufList, max_send_sge: 2 } }
    let ends = proverbs::loopback::pair_of::<Lists>().unwrap();
    let (mut a, pool) = (ends.a, ends.pool);
    let three: BufList = (0..3).filter_map(|_| pool.take()).collect();
    let refused = a.post_send(wr::Send::new(three)).unwrap_err();
    assert!(
        refused.to_string().contains("a list of 3 buffers exceeds the 2 elements"),
        "{refused}"
    );

    let ends = proverbs::loopback::pair().unwrap();
    let (mut a, pool, pd) = (ends.a, ends.pool, ends.pd);
    let region = pd.register::<RemoteAll>(8).unwrap();
    let mut buf = pool.take().unwrap();
    buf.narrow(..3).unwrap();
    let cell = region.remote().atomic(0).unwrap();
    let refused = a.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "ibv_post_send: work request 0: the 8 bytes that an atomic returns exceed its buffer, which \
         was narrowed to 3 (widen it, or take another)"
    );
}

/// A peer's reason for a rejection, as a program sees it.
#[test]
#[cfg(feature = "cm")]
fn a_rejection_has_a_text() {
    use proverbs::cm::{CmId, ConnParam, Tcp};
    let within = std::time::Duration::from_secs(5);
    let fabric = proverbs::loopback::Fabric::new();
    let _device = fabric.open_device();
    let id = CmId::<Tcp, _>::on(&fabric).unwrap();
    let taken = CmId::<Tcp, _>::on(&fabric).unwrap();
    let taken = taken.bind_addr("10.0.0.1:7471".parse().unwrap()).unwrap();
    let id = id.resolve_addr(taken.local_addr().unwrap(), within).unwrap();
    let id = id.resolve_route(within).unwrap();
    let (context, pd) = (id.context().unwrap(), id.pd().unwrap());
    let cq: CompletionQueue = context.create_cq(4).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth).unwrap();
    let refused = id.connect(qp, &ConnParam::default(), within).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "rdma_connect: rejected with reason 8 (no program listens there), 148 bytes of private data"
    );
}

/// An address without an RDMA device: the message says why it cannot be bound.
#[test]
#[cfg(feature = "cm")]
fn an_address_without_a_device_is_explained() {
    use proverbs::cm::{CmId, Tcp};
    let fabric = proverbs::loopback::Fabric::new();
    let _device = fabric.open_device();
    let refused = |address: &str| {
        let id = CmId::<Tcp, _>::on(&fabric).unwrap();
        id.bind_addr(address.parse().unwrap()).unwrap_err().error.to_string()
    };
    let unknown = refused("10.0.0.9:7");
    let words = "(10.0.0.9:7: no network interface of this machine has this address, or another \
                 id has the port)";
    assert!(unknown.ends_with(words), "{unknown}");
    // Linux binds this one, although no device has it.
    let id = CmId::<Tcp, _>::on(&fabric).unwrap();
    id.bind_addr("127.0.0.1:0".parse().unwrap()).unwrap();
}

/// The object of a refusal is returned by value, and dropped if only the reason is requested.
#[test]
fn the_object_of_a_refusal_is_returned_or_dropped() {
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
    let text = full.to_string();
    let (rejected, full) = full.into_parts();
    assert_eq!((full.to_string(), pool.available()), (text.clone(), 7));
    assert_eq!(rejected.collect::<Vec<Buf>>().len(), 1);
    assert_eq!(pool.available(), 8);
    let full = a.post_send(wr::Send::new(pool.take().expect("of 8"))).unwrap_err();
    assert_eq!((full.into_error().to_string(), pool.available()), (text, 8));
}

/// Values can be compared, printed, and used as keys: for example the address vector in a cache of
/// handles.
#[test]
fn values_are_keys() {
    use std::collections::HashMap;
    use std::fmt::Debug;
    use std::hash::Hash;
    fn key<K: Clone + Eq + Hash + Debug>(_: K) {}
    let psn = Psn::try_from(7).unwrap();
    let address = proverbs::device::AddressVector::infiniband(1, 9);
    let mut cache = HashMap::from([(address, "a handle")]);
    assert_eq!(cache.remove(&address), Some("a handle"));
    key(ConnectedInit::new(1, QpAccess::all()));
    key(UdInit::new(1, Qkey::try_from(7).unwrap()));
    key(RcRtr::new(address, Qpn::try_from(17).unwrap(), psn));
    key(UcRtr::new(address, Qpn::try_from(17).unwrap(), psn));
    key(UcRts::new(psn));
    key(UdRts::new(psn));
    let (once, twice) = (ReadDepth::ONE, ReadDepth::try_from(2).unwrap());
    assert_eq!(RcRts::<DefaultProfile>::new(psn, once), RcRts::new(psn, once));
    assert_ne!(RcRts::<DefaultProfile>::new(psn, once), RcRts::new(psn, twice));
    key(RcRts::<DefaultProfile>::new(psn, once));
    key(proverbs::qp::RcSqd::<DefaultProfile>::default());
    key(Depth { send: 8, recv: 8 });
    let slice = RemoteSlice::<RemoteReadWrite>::from_parts(8, 16, 7);
    assert_ne!(slice.slice(0, 8).unwrap(), slice);
    key(slice);
    key(slice.read());
    key(slice.write().start());
    key(WcStatus::WrFlush);
    key(state::QpState::Rts);
    key(proverbs::completion::Direction::Send);
    key(proverbs::post::PostErrorKind::NoBuffer);
    // A number that does not fit reports its range, by itself and through `?`.
    let told = |value| proverbs::Error::from(ReadDepth::try_from(value).unwrap_err()).to_string();
    assert_eq!(told(0), "attribute: max_rd_atomic 0 is less than 1");
    assert_eq!(told(129), "attribute: max_rd_atomic 129 exceeds 128");
}
