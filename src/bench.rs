//! For the benchmarks of this repository (feature `bench`): the C objects behind the typed ones, so
//! that C and Rust are measured on the same queue pair. Not part of the API.

#![allow(unsafe_code)] // reads C objects

use std::ffi::c_void;

use crate::completion::queue::CompletionQueue;
use crate::device::ah_table::AhIndex;
use crate::memory::buf::Buf;
use crate::memory::entry::Entry;
use crate::memory::header::Handle;
use crate::memory::region::{Access, MemoryRegion};
use crate::memory::remote::OutOfBounds;
use crate::memory::span::RemoteSpan;
use crate::profile::Profile;
use crate::qp::QueuePair;
use crate::rules::SharesReceives;
use crate::srq::SharedReceiveQueue;
use crate::terms::state::State;
use crate::terms::transport::{Transport, Ud};
use crate::work::limits::Limit;

/// The C types.
pub mod c {
    pub use crate::sys::types::raw::*;
}

/// The `ibv_qp`.
pub fn qp<T: Transport, S: State, P: Profile>(qp: &QueuePair<T, S, P>) -> *mut c_void {
    qp.core.qp().cast()
}

/// The `ibv_cq`.
pub fn cq<E: Entry, L: crate::qp::Threads>(cq: &CompletionQueue<E, L>) -> *mut c_void {
    cq.shared().handle().as_ptr().cast()
}

/// The `ibv_srq`.
pub fn srq<T, E, M, L: crate::qp::Threads>(srq: &SharedReceiveQueue<T, E, M, L>) -> *mut c_void
where
    T: SharesReceives,
    E: Entry,
    M: Limit,
{
    srq.core().as_ptr().cast()
}

/// The `ibv_ah`; null if the queue pair has none of that name.
pub fn ah<S: State, P: Profile>(qp: &QueuePair<Ud, S, P>, index: AhIndex) -> *mut c_void {
    if qp.core.send.ah.has(index) { index.as_ptr().cast() } else { std::ptr::null_mut() }
}

/// Address, length and lkey of a buffer.
pub fn buf<C>(buf: &Buf<C>) -> (u64, u32, u32) {
    let header = buf.header();
    (header.addr().expose_provenance() as u64, header.len(), header.lkey())
}

/// Address and lkey of `len` bytes of a region.
pub fn piece<A: Access>(
    region: &MemoryRegion<A>,
    offset: usize,
    len: usize,
) -> Result<(u64, u32), OutOfBounds> {
    let (addr, lkey) = region.locate(offset, len)?;
    Ok((addr.expose_provenance() as u64, lkey))
}

/// Address and rkey.
pub fn remote<U>(at: RemoteSpan<U>) -> (u64, u32) {
    (at.c[0], at.rkey())
}
