//! The handle of memory in an implicit region, which travels as a `wr_id`. `ext::on_demand` has its
//! methods.

use std::marker::PhantomData;

use crate::memory::owning_handle::OwningHandle;

/// A handle to memory that was moved into an
/// [`ImplicitRegion`](crate::ext::on_demand::ImplicitRegion): the source of a SEND or an RDMA
/// WRITE, created by `wr::Send::paged` and similar functions. It can be posted several times at
/// once.
///
/// While handles exist, the memory is read-only: this program reads it as a slice, and the device
/// sends it. A clone or a [`part`](Self::part) is another handle to the same memory.
///
/// Without `T` and `O`, the type does not show for which operations the handle can be posted. An
/// [`AnyBuf`](crate::memory::AnyBuf) contains this form;
/// [`recognize`](crate::ext::on_demand::ImplicitRegion::recognize) restores `T` and `O`.
#[repr(transparent)]
pub struct ImplicitBuf<T = (), O = ()>(
    pub(crate) OwningHandle,
    pub(crate) PhantomData<fn() -> (T, O)>,
);
