//! Where an opcode that goes to the peer's memory starts there.

use super::{CmpAndSwp, FetchAndAdd, Opcode, RdmaRead, RdmaWrite, RdmaWriteWithImm};
use crate::allows::Same;
use crate::memory::remote::RemoteCell;
use crate::memory::remote::sealed::Sealed;
use crate::memory::span::{RemoteAddr, RemoteSpan, ToRead};
use crate::work::request::Use;

/// An opcode that may start at the peer's address `R`: an RDMA WRITE at a [`RemoteSpan`], an RDMA
/// READ at a [`RemoteSpan<ToRead>`](RemoteSpan), or at a [`RemoteAddr`] without an end in their
/// place, and an atomic at a [`RemoteCell`] ([R6.7](crate::guide::rules#r6-7),
/// [R4.2](crate::guide::rules#r4-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::wr::{FetchAndAdd, IntoData, RdmaWrite, StartsAt, Takes};
/// fn ticket<D: IntoData<Data = D>, R>(result: D, counter: R) -> wr::WorkRequest<FetchAndAdd, D>
/// where
///     FetchAndAdd: Takes<D> + StartsAt<R>,
/// {
///     FetchAndAdd::new(result, counter, 1)
/// }
/// let _ = |buf: Buf, counter: RemoteCell| ticket(buf, counter);
/// fn mail<R>(to: R) -> wr::WorkRequest<RdmaWrite, wr::Inline<'static, 4>>
/// where
///     RdmaWrite: StartsAt<R>,
/// {
///     RdmaWrite::inline(b"mail", to)
/// }
/// let _ = |theirs: RemoteSlice<RemoteWrite>| mail(theirs.write());
/// ```
pub trait StartsAt<R, Op: Opcode = Self> {
    #[doc(hidden)]
    fn at(remote: R) -> (Op::Addr, Use);
}

macro_rules! starts_at {
    ($($op:ident: $rule:ident $addr:ty;)+) => {$(
        // (As of `allows!`: with the opcode in its place, errors would show the others.)
        impl<R: $rule, Op: Same<This = $op>> StartsAt<R, $op> for Op {
            #[inline(always)]
            fn at(remote: R) -> ($addr, Use) {
                remote.place()
            }
        }
    )+};
}

starts_at! {
    RdmaWrite: WriteAddr RemoteSpan;
    RdmaWriteWithImm: WriteAddr RemoteSpan;
    RdmaRead: ReadAddr RemoteSpan<ToRead>;
    CmpAndSwp: AtomicAddr RemoteCell;
    FetchAndAdd: AtomicAddr RemoteCell;
}

/// A target of an RDMA WRITE: a [`RemoteSpan`], or a [`RemoteAddr`] without an end
/// ([R6.7](crate::guide::rules#r6-7)).
#[diagnostic::on_unimplemented(
    message = "an RDMA WRITE cannot start at a `{Self}`",
    label = "not an address that the peer opened for writing",
    note = "`write()` of the peer's `RemoteSlice` gives one, where REMOTE_WRITE was granted"
)]
pub trait WriteAddr: Sealed {
    /// The span, and how a WRITE to it uses its data: no longer than the span, if that has an end.
    #[doc(hidden)]
    fn place(self) -> (RemoteSpan, Use);
}

// Written out instead of made by a macro, because errors show the impls.
#[diagnostic::do_not_recommend]
impl WriteAddr for RemoteSpan {
    #[inline(always)]
    fn place(self) -> (RemoteSpan, Use) {
        (self, Use::Write)
    }
}

#[diagnostic::do_not_recommend]
impl WriteAddr for RemoteAddr {
    #[inline(always)]
    fn place(self) -> (RemoteSpan, Use) {
        (self.0, Use::Send)
    }
}

/// A source of an RDMA READ: a [`RemoteSpan<ToRead>`](RemoteSpan), or a
/// [`RemoteAddr<ToRead>`](RemoteAddr) without an end ([R6.7](crate::guide::rules#r6-7)).
#[diagnostic::on_unimplemented(
    message = "an RDMA READ cannot start at a `{Self}`",
    label = "not an address that the peer opened for reading",
    note = "`read()` of the peer's `RemoteSlice` gives one, where REMOTE_READ was granted"
)]
pub trait ReadAddr: Sealed {
    /// The span, and how a READ from it uses its data: filled as far as the span goes, if that has
    /// an end.
    #[doc(hidden)]
    fn place(self) -> (RemoteSpan<ToRead>, Use);
}

// Written out instead of made by a macro, because errors show the impls.
#[diagnostic::do_not_recommend]
impl ReadAddr for RemoteSpan<ToRead> {
    #[inline(always)]
    fn place(self) -> (RemoteSpan<ToRead>, Use) {
        (self, Use::Read)
    }
}

#[diagnostic::do_not_recommend]
impl ReadAddr for RemoteAddr<ToRead> {
    #[inline(always)]
    fn place(self) -> (RemoteSpan<ToRead>, Use) {
        (self.0, Use::Send)
    }
}

/// A target of an atomic: a [`RemoteCell`] ([R4.2](crate::guide::rules#r4-2)).
///
/// ```
/// # use proverbs::prelude::*;
/// use proverbs::wr::AtomicAddr;
/// fn ticket<D: wr::AtomicSink>(
///     result: D,
///     counter: impl AtomicAddr,
/// ) -> wr::WorkRequest<wr::FetchAndAdd, D> {
///     wr::FetchAndAdd::new(result, counter, 1)
/// }
/// let _ = |buf: Buf, counter: RemoteCell| ticket(buf, counter);
/// ```
#[diagnostic::on_unimplemented(
    message = "an atomic cannot be made on a `{Self}`",
    label = "not a cell of 8 aligned bytes",
    note = "`atomic(offset)` of the peer's `RemoteSlice` gives one, where REMOTE_ATOMIC was granted"
)]
pub trait AtomicAddr: Sealed {
    #[doc(hidden)]
    fn place(self) -> (RemoteCell, Use);
}

#[diagnostic::do_not_recommend]
impl AtomicAddr for RemoteCell {
    #[inline(always)]
    fn place(self) -> (RemoteCell, Use) {
        (self, Use::Atomic)
    }
}
