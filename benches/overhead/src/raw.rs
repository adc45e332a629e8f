//! Raw Rust: only the bindings, with an `ibv_send_wr` that is filled field by field on the stack,
//! in the environment of the C twins. The three verbs are the inline functions of verbs.h as in
//! rdma-sys, which checks the function pointer; C does not.

use std::ffi::c_int;
use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;

use crate::c::{
    ibv_cq, ibv_qp, ibv_recv_wr, ibv_send_flags, ibv_send_wr, ibv_sge, ibv_wc, ibv_wc_status,
    ibv_wr_opcode,
};
use crate::form::form;
use crate::twin::{Twin, TwinRemote};

macro_rules! verb {
    ($name:ident($object:ident, $($arg:ident: $type:ty),*) = $op:ident) => {
        /// # Safety
        /// The contract of the manual page.
        #[inline(always)]
        unsafe fn $name(object: *mut $object, $($arg: $type),*) -> c_int {
            // SAFETY: the object is live, and so are its context and its function table. The
            // function has the contract of the verb, which the caller meets.
            unsafe { (*(*object).context).ops.$op.unwrap()(object, $($arg),*) }
        }
    };
}

verb! { ibv_post_send(ibv_qp, wr: *mut ibv_send_wr, bad: *mut *mut ibv_send_wr) = post_send }
verb! { ibv_post_recv(ibv_qp, wr: *mut ibv_recv_wr, bad: *mut *mut ibv_recv_wr) = post_recv }
verb! { ibv_poll_cq(ibv_cq, entries: c_int, wc: *mut ibv_wc) = poll_cq }

#[cold]
#[inline(never)]
fn failed(_: *const ibv_send_wr, code: c_int) -> c_int {
    // Opaque to the optimizer, like the function of the twins, which is in a separate file.
    black_box(code)
}

/// # Safety
/// `wr` is an `ibv_send_wr` with all fields set that its opcode reads.
#[inline(always)]
unsafe fn post(twin: &Twin, wr: *mut ibv_send_wr) -> c_int {
    let mut bad = MaybeUninit::uninit();
    // SAFETY: the queue pair is live, the list valid.
    match unsafe { ibv_post_send(twin.qp, wr, bad.as_mut_ptr()) } {
        0 => 0,
        code => failed(wr, code),
    }
}

/// A work request with one element, without its operands.
///
/// # Safety
/// `wr` and `sge` are writable.
#[inline(always)]
unsafe fn head(
    wr: *mut ibv_send_wr,
    sge: *mut ibv_sge,
    (wr_id, piece): (u64, ibv_sge),
    next: *mut ibv_send_wr,
    (opcode, flags): (u32, u32),
) {
    // SAFETY: both are writable. The fields are plain numbers and pointers, so nothing is dropped.
    unsafe {
        sge.write(piece);
        (*wr).wr_id = wr_id;
        (*wr).next = next;
        (*wr).sg_list = sge;
        (*wr).num_sge = 1;
        (*wr).opcode = opcode;
        (*wr).send_flags = flags;
    }
}

/// `one! { name, OPCODE, flags; field = argument; ... }`
macro_rules! one {
    ($name:ident, $opcode:ident, $flags:expr; $($($field:ident).* = $($from:ident).*;)*) => {
        form! { $name(twin: Twin) {
            let mut wr = MaybeUninit::<ibv_send_wr>::uninit();
            let mut sge = MaybeUninit::<ibv_sge>::uninit();
            let (at, sge) = (wr.as_mut_ptr(), sge.as_mut_ptr());
            let operation = (ibv_wr_opcode::$opcode, $flags);
            // SAFETY: both are locals, and when they are posted all fields are set that the opcode
            // reads.
            unsafe {
                head(at, sge, (twin.ids[0], twin.pieces[0]), ptr::null_mut(), operation);
                $((*at).wr.$($field).* = twin.$($from).*;)*
                post(twin, at)
            }
        }}
    };
}

const INLINE: u32 = ibv_send_flags::IBV_SEND_INLINE.0;

one! { send, IBV_WR_SEND, 0; }
one! { write, IBV_WR_RDMA_WRITE, 0; rdma.remote_addr = to.addr; rdma.rkey = to.rkey; }
one! { read, IBV_WR_RDMA_READ, 0; rdma.remote_addr = from.addr; rdma.rkey = from.rkey; }
one! { cas, IBV_WR_ATOMIC_CMP_AND_SWP, 0;
    atomic.remote_addr = cell.addr; atomic.rkey = cell.rkey;
    atomic.compare_add = compare; atomic.swap = swap;
}
one! { faa, IBV_WR_ATOMIC_FETCH_AND_ADD, 0;
    atomic.remote_addr = cell.addr; atomic.rkey = cell.rkey; atomic.compare_add = add;
}
one! { inline_send, IBV_WR_SEND, INLINE; }
one! { inline_write, IBV_WR_RDMA_WRITE, INLINE; rdma.remote_addr = to.addr; rdma.rkey = to.rkey; }
one! { ud_send, IBV_WR_SEND, 0; ud.ah = to_ah.ah; ud.remote_qpn = remote_qpn; ud.remote_qkey = remote_qkey; }

/// The immediate, in network order.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
unsafe fn set_imm(wr: *mut ibv_send_wr, imm_data: u32) {
    // SAFETY: the field is inside the work request, whose bytes need not be initialized yet,
    // because no reference is created.
    unsafe {
        (&raw mut (*wr).imm_data_invalidated_rkey_union).cast::<u32>().write(imm_data.to_be());
    }
}

/// Sets the target of a WRITE or READ.
///
/// # Safety
/// `wr` is writable.
#[inline(always)]
unsafe fn set_remote(wr: *mut ibv_send_wr, at: &TwinRemote) {
    // SAFETY: the fields are inside the work request, which is writable, and plain numbers.
    unsafe {
        (*wr).wr.rdma.remote_addr = at.addr;
        (*wr).wr.rdma.rkey = at.rkey;
    }
}

form! { send_imm(twin: Twin) {
    let mut wr = MaybeUninit::<ibv_send_wr>::uninit();
    let mut sge = MaybeUninit::<ibv_sge>::uninit();
    let (at, sge) = (wr.as_mut_ptr(), sge.as_mut_ptr());
    let (data, operation) = ((twin.ids[0], twin.pieces[0]), (ibv_wr_opcode::IBV_WR_SEND_WITH_IMM, 0));
    // SAFETY: both are locals, and when they are posted all fields are set that the opcode reads.
    unsafe {
        head(at, sge, data, ptr::null_mut(), operation);
        set_imm(at, twin.imm_data);
        post(twin, at)
    }
}}

form! { write_imm(twin: Twin) {
    let mut wr = MaybeUninit::<ibv_send_wr>::uninit();
    let mut sge = MaybeUninit::<ibv_sge>::uninit();
    let (at, sge) = (wr.as_mut_ptr(), sge.as_mut_ptr());
    let operation = (ibv_wr_opcode::IBV_WR_RDMA_WRITE_WITH_IMM, 0);
    // SAFETY: both are locals, and when they are posted all fields are set that the opcode reads.
    unsafe {
        head(at, sge, (twin.ids[0], twin.pieces[0]), ptr::null_mut(), operation);
        set_imm(at, twin.imm_data);
        set_remote(at, &twin.to);
        post(twin, at)
    }
}}

/// A WRITE of `N` elements.
#[inline(always)]
fn gathered<const N: usize>(twin: &Twin) -> c_int {
    let mut wr = MaybeUninit::<ibv_send_wr>::uninit();
    let mut sges = [const { MaybeUninit::<ibv_sge>::uninit() }; N];
    let (at, sge) = (wr.as_mut_ptr(), sges.as_mut_ptr().cast::<ibv_sge>());
    let operation = (ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0);
    // SAFETY: a local, and an array of `N` elements of which the first `N` are written; when they
    // are posted all fields are set that the opcode reads.
    unsafe {
        head(at, sge, (twin.ids[0], twin.pieces[0]), ptr::null_mut(), operation);
        for (i, piece) in twin.pieces[..N].iter().enumerate().skip(1) {
            sge.wrapping_add(i).write(*piece);
        }
        (*at).num_sge = N as c_int;
        set_remote(at, &twin.to);
        post(twin, at)
    }
}

form! { sge2(twin: Twin) gathered::<2>(twin) }
form! { sge4(twin: Twin) gathered::<4>(twin) }

form! { mixed4(twin: Twin) {
    let mut wrs = [const { MaybeUninit::<ibv_send_wr>::uninit() }; 4];
    let mut sges = [const { MaybeUninit::<ibv_sge>::uninit() }; 4];
    let (first, sge) =
        (wrs.as_mut_ptr().cast::<ibv_send_wr>(), sges.as_mut_ptr().cast::<ibv_sge>());
    let operations = [
        (ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0),
        (ibv_wr_opcode::IBV_WR_SEND, INLINE),
        (ibv_wr_opcode::IBV_WR_RDMA_READ, 0),
        (ibv_wr_opcode::IBV_WR_ATOMIC_FETCH_AND_ADD, 0),
    ];
    for (i, operation) in operations.into_iter().enumerate() {
        let at = first.wrapping_add(i);
        let next = if i < 3 { at.wrapping_add(1) } else { ptr::null_mut() };
        let data = (twin.ids[i], twin.pieces[i]);
        // SAFETY: elements of local arrays of four, and `i` is below.
        unsafe { head(at, sge.wrapping_add(i), data, next, operation) };
    }
    // SAFETY: the first, third and fourth of four local work requests. With these fields, each has
    // every field that its opcode reads, and is posted.
    unsafe {
        set_remote(first, &twin.to);
        set_remote(first.wrapping_add(2), &twin.from);
        let atomic = &raw mut (*first.wrapping_add(3)).wr.atomic;
        (*atomic).remote_addr = twin.cell.addr;
        (*atomic).rkey = twin.cell.rkey;
        (*atomic).compare_add = twin.add;
        post(twin, first)
    }
}}

/// A number of WRITEs that is known at run time.
#[inline(always)]
fn listed(twin: &Twin, count: u32) -> c_int {
    let mut wrs = [const { MaybeUninit::<ibv_send_wr>::uninit() }; 16];
    let mut sges = [const { MaybeUninit::<ibv_sge>::uninit() }; 16];
    let (first, sge) =
        (wrs.as_mut_ptr().cast::<ibv_send_wr>(), sges.as_mut_ptr().cast::<ibv_sge>());
    let count = count.min(16) as usize;
    if count == 0 {
        return 0;
    }
    for i in 0..count {
        let at = first.wrapping_add(i);
        let (data, operation) =
            ((twin.ids[i], twin.pieces[i]), (ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0));
        // SAFETY: elements of local arrays of sixteen, and `i` is below.
        unsafe {
            head(at, sge.wrapping_add(i), data, at.wrapping_add(1), operation);
            set_remote(at, &twin.to);
        }
    }
    // SAFETY: the last one written ends the list, and each has every field that its opcode reads.
    unsafe {
        (*first.wrapping_add(count - 1)).next = ptr::null_mut();
        post(twin, first)
    }
}

form! { list1of16(twin: Twin) listed(twin, twin.counts[0]) }
form! { list4of16(twin: Twin) listed(twin, twin.counts[1]) }
form! { list16of16(twin: Twin) listed(twin, twin.counts[2]) }

/// A chain of `N` WRITEs.
#[inline(always)]
fn chain<const N: usize>(twin: &Twin) -> c_int {
    let mut wrs = [const { MaybeUninit::<ibv_send_wr>::uninit() }; N];
    let mut sges = [const { MaybeUninit::<ibv_sge>::uninit() }; N];
    let (first, sge) =
        (wrs.as_mut_ptr().cast::<ibv_send_wr>(), sges.as_mut_ptr().cast::<ibv_sge>());
    for i in 0..N {
        let at = first.wrapping_add(i);
        let next = if i + 1 < N { at.wrapping_add(1) } else { ptr::null_mut() };
        let what = (twin.ids[i], twin.pieces[i]);
        let operation = (ibv_wr_opcode::IBV_WR_RDMA_WRITE, 0);
        // SAFETY: elements of local arrays of `N`, and `i` is below.
        unsafe {
            head(at, sge.wrapping_add(i), what, next, operation);
            set_remote(at, &twin.to);
        }
    }
    // SAFETY: each has all fields that its opcode reads, and the last one ends the list.
    unsafe { post(twin, first) }
}

form! { chain2(twin: Twin) chain::<2>(twin) }
form! { chain4(twin: Twin) chain::<4>(twin) }
form! { chain8(twin: Twin) chain::<8>(twin) }
form! { chain16(twin: Twin) chain::<16>(twin) }
form! { chain32(twin: Twin) chain::<32>(twin) }

/// A list of `N` receives.
#[inline(always)]
fn receives<const N: usize>(twin: &Twin) -> c_int {
    let mut wrs = [const { MaybeUninit::<ibv_recv_wr>::uninit() }; N];
    let mut sges: [ibv_sge; N] = std::array::from_fn(|i| twin.pieces[i]);
    let first = wrs.as_mut_ptr().cast::<ibv_recv_wr>();
    let sge = sges.as_mut_ptr();
    for i in 0..N {
        let at = first.wrapping_add(i);
        let next = if i + 1 < N { at.wrapping_add(1) } else { ptr::null_mut() };
        let (wr_id, sg_list) = (twin.ids[i], sge.wrapping_add(i));
        // SAFETY: an element of a local array.
        unsafe { at.write(ibv_recv_wr { wr_id, next, sg_list, num_sge: 1 }) };
    }
    let mut bad = MaybeUninit::uninit();
    // SAFETY: the queue pair is live, the list valid.
    match unsafe { ibv_post_recv(twin.qp, first, bad.as_mut_ptr()) } {
        0 => 0,
        code => failed(ptr::null(), code),
    }
}

form! { recv1(twin: Twin) receives::<1>(twin) }
form! { recv16(twin: Twin) receives::<16>(twin) }

#[inline(always)]
fn poll<const N: usize>(twin: &mut Twin) -> c_int {
    let mut wcs = [const { MaybeUninit::<ibv_wc>::uninit() }; N];
    let first = wcs.as_mut_ptr().cast::<ibv_wc>();
    // SAFETY: the completion queue is live, and there is room for `N`.
    let count = unsafe { ibv_poll_cq(twin.cq, N as c_int, first) };
    if count <= 0 {
        return if count == 0 { 0 } else { failed(ptr::null(), count) };
    }
    for i in 0..count as usize {
        // SAFETY: the provider wrote `count` completions, and `i` is below.
        let wc = unsafe { &*first.add(i) };
        if wc.status != ibv_wc_status::IBV_WC_SUCCESS {
            return failed(ptr::null(), 1);
        }
        // SAFETY: there is room for 32, and `N` is 16 at most.
        unsafe { *twin.ids.get_unchecked_mut(i) = wc.wr_id };
    }
    0
}

form! { poll1(twin: Twin) poll::<1>(twin) }
form! { poll16(twin: Twin) poll::<16>(twin) }

form! { cycle(twin: Twin) {
    match chain::<1>(twin) {
        0 => poll::<1>(twin),
        code => code,
    }
}}
