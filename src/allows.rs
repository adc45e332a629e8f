//! One bound for everything that depends on a type: its state, profile, rights or opcode. The rules
//! are the bounds of the impls, so an error names the broken rule.

/// Only this crate can name this type. So no other crate can implement a trait that has a `SEAL`,
/// even for its own types.
pub struct Seal;

/// The object allows the call `C` (a type in [`call`]), depending on the object's state, profile or
/// rights.
///
/// Most methods that only some objects have require this trait. Compiler errors name it after the
/// broken rule, and generic code writes it as a bound:
///
/// ```
/// use proverbs::prelude::*;
/// use proverbs::rules::{Allows, call};
/// use proverbs::state::State;
/// use proverbs::transport::Transport;
///
/// /// From any state that can move to the error state: all but RESET.
/// fn stop<T: Transport, S: State, P: Profile>(qp: QueuePair<T, S, P>) -> Result<(), proverbs::Error>
/// where
///     QueuePair<T, S, P>: Allows<call::ToError>,
/// {
///     qp.to_error()?;
///     Ok(())
/// }
/// # let proverbs::loopback::Pair { a, .. } = proverbs::loopback::pair()?;
/// stop(a)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Other crates cannot implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not known to allow the call `{C}`",
    label = "not known to allow it",
    note = "in generic code, bound the object: `where {Self}: Allows<{C}>`, of `proverbs::rules`"
)]
pub trait Allows<C> {
    #[doc(hidden)]
    const SEAL: Seal;
}

/// Implemented for every type `T`, with `This = T`.
pub trait Same {
    type This: ?Sized;
}

impl<T: ?Sized> Same for T {
    type This = T;
}

/// The part of an object to which the rule of the call `C` applies, if several kinds of object have
/// the call.
pub trait RuledBy<C> {
    type Part;
}

/// Implements [`Allows`]. The arguments are the type parameters, with the rules as their bounds,
/// then the object, and then the calls.
///
/// Each impl is for any type that equals the object. If it named the object directly, rustc would
/// add to each error a list of objects that allow other calls.
macro_rules! allows {
    (@one [$($params:tt)+] $object:ty, $call:ident $(<$($of:ty),+>)?) => {
        impl<$($params)+, Object> $crate::allows::Allows<$crate::allows::call::$call $(<$($of),+>)?>
            for Object
        where
            Object: $crate::allows::Same<This = $object>,
        {
            const SEAL: $crate::allows::Seal = $crate::allows::Seal;
        }
    };
    ($($params:tt $object:ty: $($call:ident $(<$($of:ty),+>)?),+;)+) => {$($(
        allows!(@one $params $object, $call $(<$($of),+>)?);
    )+)+};
}

/// Implements [`RuledBy`] for a call.
macro_rules! ruled_by {
    ($call:ident: $([$($params:tt)+] $object:ty, $part:ty;)+) => {$(
        impl<$($params)+> $crate::allows::RuledBy<$crate::allows::call::$call> for $object {
            type Part = $part;
        }
    )+};
}

macro_rules! calls {
    ($($(#[$docs:meta])+ $call:ident)+) => {$(
        $(#[$docs])+
        #[derive(Debug)]
        pub enum $call {}
    )+};
}

macro_rules! calls_with {
    ($($(#[$docs:meta])+ $call:ident($what:ident $(, $($more:tt)+)?))+) => {$(
        $(#[$docs])+
        #[derive(Debug)]
        pub struct $call<$what $(, $($more)+)?>(Infallible, PhantomData<$what>);
    )+};
}

/// The calls that not every object allows, as types for [`Allows`].
pub mod call {
    use std::convert::Infallible;
    use std::marker::PhantomData;

    calls! {
        /// [`CmId::pd`](crate::cm::CmId::pd), `context`, `port`, `create_qp` and other methods that
        /// need the id's device.
        UseDevice
        /// [`CmId::bind_addr`](crate::cm::CmId::bind_addr) and `bind_ib_addr`.
        BindAddr
        /// [`CmId::set_reuse_addr`](crate::cm::CmId::set_reuse_addr) and `set_af_only`.
        SetAddrOption
        /// [`CmId::listen`](crate::cm::CmId::listen).
        Listen
        /// [`CmId::get_request`](crate::cm::CmId::get_request) and `get_request_timeout`.
        GetRequest
        /// [`CmId::resolve_addr`](crate::cm::CmId::resolve_addr) and `resolve_ib_addr`.
        ResolveAddr
        /// [`CmId::resolve_route`](crate::cm::CmId::resolve_route).
        ResolveRoute
        /// [`CmId::connect`](crate::cm::CmId::connect).
        Connect
        /// [`CmId::set_tos`](crate::cm::CmId::set_tos) and `set_ack_timeout`.
        SetOption
        /// [`CmId::join_multicast`](crate::cm::CmId::join_multicast).
        JoinMulticast
        /// [`CmId::leave_multicast`](crate::cm::CmId::leave_multicast).
        LeaveMulticast
        /// [`CmId::notify_established`](crate::cm::CmId::notify_established).
        NotifyEstablished
        /// [`CmId::wait_disconnected`](crate::cm::CmId::wait_disconnected).
        WaitDisconnected
        /// `AsyncEventChannel::disconnected`.
        Disconnected
        /// [`CmId::remote_ece`](crate::cm::CmId::remote_ece).
        RemoteEce
        /// [`Ep::post_send`](crate::cm::Ep::post_send), `post_read`, `post_write`, `post_ud_send`
        /// and their forms with several buffers.
        EpPost
        /// [`Group::attach`](crate::cm::Group::attach) and `detach`.
        Attach

        /// [`QueuePair::to_error`](crate::QueuePair::to_error), also for XRC targets.
        ToError
        /// [`QueuePair::into_sqe`](crate::QueuePair::into_sqe), and `AnyQueuePair::to_sqe`.
        IntoSqe
        /// [`QueuePair::set_ece`](crate::QueuePair::set_ece).
        SetEce
        /// [`QueuePair::limit_rate`](crate::QueuePair::limit_rate).
        LimitRate
        /// [`QueuePair::add_address_handle`](crate::QueuePair::add_address_handle).
        AddAddressHandle
        /// [`QueuePair::post_send`](crate::QueuePair::post_send), `send_list`, `post_send!` and the
        /// other ways to post a send.
        PostSend
        /// [`QueuePair::post_recv`](crate::QueuePair::post_recv), `recv_list` and `post_recv!`.
        PostRecv
        /// [`QueuePair::post_send_unsignaled`](crate::QueuePair::post_send_unsignaled) and other
        /// posts that leave the last work request unsignaled, and `settle`.
        PostUnsignaled
        /// [`ProtectionDomain::create_xrc_initiator`](crate::ProtectionDomain::create_xrc_initiator).
        CreateXrcInitiator
        /// [`RcConnector::set_initiator_depth`](crate::endpoint::RcConnector::set_initiator_depth).
        SetInitiatorDepth
        /// [`SendSlots::new`](crate::post::SendSlots::new).
        NewSendSlots
        /// [`CqBuilder::channel`](crate::completion::CqBuilder::channel).
        SetChannel
        /// [`CqBuilder::vector`](crate::completion::CqBuilder::vector).
        SetVector

        /// [`RemoteSlice::read`](crate::memory::RemoteSlice::read), also for a
        /// [`Revocable`](crate::ext::windows::Revocable).
        ReadRemote
        /// [`RemoteSlice::write`](crate::memory::RemoteSlice::write) and `write_cell`.
        WriteRemote
        /// [`RemoteSlice::atomic`](crate::memory::RemoteSlice::atomic).
        AtomicRemote
        /// [`RemoteSlice::flush_global`](crate::memory::RemoteSlice::flush_global).
        GlobalFlush
        /// [`RemoteSlice::flush_persistent`](crate::memory::RemoteSlice::flush_persistent).
        PersistentFlush
        /// [`MemoryRegion::remote`](crate::MemoryRegion::remote).
        RemoteKey
        /// [`MemoryRegion::piece`](crate::MemoryRegion::piece).
        Piece
        /// [`MemoryRegion::source`](crate::MemoryRegion::source).
        Source
        /// [`MemoryRegion::share`](crate::MemoryRegion::share).
        Share
        /// [`MemoryRegion::cell`](crate::MemoryRegion::cell).
        CellAt
        /// [`MemoryRegion::write_at`](crate::MemoryRegion::write_at) and `write_value`.
        WriteAt
        /// [`PoolBuilder::create_in`](crate::memory::PoolBuilder::create_in), also for arenas.
        CreateIn
        /// [`ImplicitRegion::adopt`](crate::ext::on_demand::ImplicitRegion::adopt).
        Adopt
        /// `post_send!` for an object without a send queue. No object allows it.
        PostSendMacro
        /// `post_recv!` for an object that is not a queue pair. No object allows it.
        PostRecvMacro
        /// `post_srq_recv!` for an object that is not a shared receive queue. No object allows it.
        PostSrqRecvMacro
        /// Calling `outcome` on a whole poll instead of on each completion. No object allows it.
        OutcomeOfPoll
        /// Draining a queue pair in RTS, where nothing is flushed. No object allows it.
        DrainInRts
        /// A piece of on-demand memory as the data of a post. No object allows it, because not
        /// every queue pair can send such memory.
        PieceOnDemand
        /// [`WorkRequest::signaled`](crate::wr::WorkRequest::signaled).
        SetSignaled
        /// [`WorkRequest::solicited`](crate::wr::WorkRequest::solicited).
        SetSolicited
        /// [`WorkRequest::with_id`](crate::wr::WorkRequest::with_id).
        WithId
        /// [`WorkRequest::with_context`](crate::wr::WorkRequest::with_context) and
        /// [`Recv::with_context`](crate::wr::Recv::with_context).
        WithContext
        /// [`WorkRequest::prepare`](crate::wr::WorkRequest::prepare).
        Prepare
    }

    calls_with! {
        /// [`RegionBuilder::create_in`](crate::memory::RegionBuilder::create_in), `rereg_access`
        /// and `rereg_memory`, with the rights `A`.
        Register(A)
        /// [`SendList::push`](crate::post::SendList::push) and `extend` of work requests `W`, also
        /// for a [`RecvList`](crate::post::RecvList).
        Push(W)
        /// [`RawSendList::push`](crate::post::RawSendList::push) of work requests `W`.
        PushUnchecked(W)
        /// [`QueuePair::post_send_list_unchecked`](crate::QueuePair::post_send_list_unchecked) of
        /// work requests `W` with room for `G` scatter/gather elements each.
        PostSendList(W, const G: usize)
        /// [`QueuePair::post_recv_list_unchecked`](crate::QueuePair::post_recv_list_unchecked) of
        /// receives `W` with room for `G` scatter/gather elements each, also for a shared receive
        /// queue.
        PostRecvList(W, const G: usize)
        /// [`BindMw::new`](crate::ext::windows::BindMw::new) of a window with the rights `A`, also
        /// for `MwBind`.
        BindWindow(A)
        /// Posting a prepared work request with the buffer `D` instead of its
        /// [`Placeholder`](crate::wr::Placeholder), as with
        /// [`post_prepared`](crate::QueuePair::post_prepared).
        Fill(D)
        /// [`ProtectionDomain::qp_from_raw`](crate::ProtectionDomain::qp_from_raw) for the
        /// transport `T`.
        QpFromRaw(T)
        /// [`QueuePair::data_in_order`](crate::QueuePair::data_in_order) for the opcode `O`.
        DataInOrder(O)
        /// Reading the field `F` of a completion, as with
        /// [`ReadFields::completion_ts`](crate::ext::extended_polling::ReadFields::completion_ts).
        ReadField(F)
        /// [`MemoryRegion::export`](crate::MemoryRegion::export) with the rights `B`.
        Export(B)
        /// `paged` of the opcode `O`, for memory in an implicit region, such as
        /// [`Send::paged`](crate::wr::Send::paged).
        PostPaged(O)
        /// Inline data of the opcode `O`, as in [`Send::inline`](crate::wr::Send::inline). It is
        /// not available for opcodes whose data comes from the peer.
        Inline(O)
        /// [`ProtectionDomain::create_srq`](crate::ProtectionDomain::create_srq) for the transport
        /// `T`.
        CreateSrq(T)
        /// Creating a shared receive queue from a pool whose buffers have contexts of type `C`. The
        /// queue's entry type must accept such buffers.
        FeedFrom(C)
    }
    /// [`PrivateData::of`](crate::cm::PrivateData::of) for `N` bytes.
    #[derive(Debug)]
    pub struct PrivateBytes<const N: usize>(Infallible);
}
