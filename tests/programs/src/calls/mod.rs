//! The public calls, as generated programs make them. `cargo xtask programs` reads these files and
//! puts the bodies of the functions into programs; here they are only compiled.
//!
//! A call's signature describes its effects: an argument by value is consumed, each `Option` that
//! it returns is a new value, and a lifetime shows what a result borrows. A type that is a set
//! ([`sets`]) is any of its members, the same one throughout the call; `T`, `S`, `P` and other
//! single letters are any type, and `EntryOf<P>` is the entry of a profile. `w.pick(0, [..])` is
//! chosen again in each turn of a program. [`ALIKE`] is whether all arguments are known to belong
//! to one context. The documentation of a call has these words:
//!
//! | word | meaning |
//! |---|---|
//! | `weight N` | how often it is drawn |
//! | `kin ARGS` | these must be of one context: of two, nothing is made |
//! | `on ARGS` | the results complete into these queues; of two, each into its own |
//! | `at QP CQ` | the first completes into the second alone |
//! | `settles CQ` | after it, what is gone is accounted for in that queue |
//! | `panics` | it may panic on purpose, and gives nothing |
//! | `open` | it opens memory to the fabric |
//! | `forgets` | only in programs that forget things |
//! | `alone` | only while no other thread runs |
// Only the generator uses the functions, and many of them misuse the crate on purpose.
#![allow(dead_code, unused_variables, clippy::all)]

mod arenas;
mod channels;
mod completions;
mod datagrams;
mod devices;
mod endpoints;
mod ends;
mod faults;
mod given_memory;
mod loud;
mod nests;
mod one_sided;
mod open_memory;
mod own_memory;
mod pools;
mod queue_pairs;
mod receives;
mod regions;
mod sends;
mod sets;
mod shared_receives;
mod sizes;
mod whole;
mod windows;

use std::marker::PhantomData;

use proverbs::bounded::*;
use proverbs::completion::*;
use proverbs::device::*;
use proverbs::endpoint;
use proverbs::ext::on_demand::*;
use proverbs::ext::path_migration::*;
use proverbs::ext::persistence::*;
use proverbs::ext::windows::*;
use proverbs::loopback::*;
use proverbs::memory::*;
use proverbs::post::*;
use proverbs::prelude::*;
use proverbs::qp::*;
use proverbs::raw::AsRaw;
use proverbs::state::*;

use crate::{World, *};
use sets::*;

/// Whether all arguments of a call are known to belong to one context.
const ALIKE: bool = true;

// Any type.
type T = Rc;
type U = Rc;
type S = Rts;
type P = DefaultProfile;
type E = Buf;
type A = RemoteWrite;
type B = RemoteRead;
type M = Octets;
type N = Words;
type Q = Ring;
type V = Rts;
type O = Sends;
/// A Vec may hold values that borrow.
type X<'a> = Completion<'a, Buf>;

/// The entries of a profile's queues.
type EntryOf<P> = <P as Profile>::Entry;

// The arguments and results of the calls.
type Pd = ProtectionDomain;
type Cq<E> = CompletionQueue<E>;
type Channel = CompletionChannel;
type Events = DeviceEvents;
type Qp<T, S, P> = QueuePair<T, S, P>;
type Srq<T> = SharedReceiveQueue<T>;
type Ah = AddressHandle;
type Dest = wr::Destination;
type Region<A, M> = MemoryRegion<A, M>;
type Slice<A> = RemoteSlice<A>;
type Connector<P> = endpoint::RcConnector<P>;
type Endpoint = endpoint::Endpoint;
type Vector = CompVector;
type Proof = Can<ResizeSrq>;
type Window = MemoryWindow;
type WindowRegion = MemoryRegion<Windowed<LocalWrite>>;
type Ended = WindowEntry;
type Bound = BoundWindow<RemoteWrite>;
type Lent = LentWindow;
type OneWindow = Type1Window;
type OneBound = BoundType1Window<RemoteWrite>;
type All<T, O> = ImplicitRegion<T, O>;
type RecvSlots<const L: usize = 3> = proverbs::post::RecvSlots<L>;
type SendSlots<const L: usize = 3, const G: usize = 1> = proverbs::post::SendSlots<L, G>;
type RecvList<'a, T, P> = proverbs::post::RecvList<'a, T, P, 1>;
type SendList<'a, T, P> = proverbs::post::SendList<'a, T, P, 1>;
/// Given memory of the type `M`.
type Given<T, O, M> = <(ImplicitBuf<T, O>, M) as First>::Is;

trait First {
    type Is;
}

impl<A, B> First for (A, B) {
    type Is = A;
}
