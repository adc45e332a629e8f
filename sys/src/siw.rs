//! Works around four faults of libsiw's `post_send`.
//!
//! - It takes the key of SEND_WITH_INV from `wr.rdma.rkey`, where C programs have `invalidate_rkey`
//!   (`push_send_wqe` of rdma-core's providers/siw/siw.c).
//! - It accepts SEND_WITH_INV with inline data, and a READ with a fence. The kernel accepts neither
//!   (`siw_activate_tx_from_sq` of drivers/infiniband/sw/siw/siw_qp.c): the post fails without a
//!   bad_wr, and the send queue never moves again.
//! - It accepts a READ without an element, and the kernel treats it as a READ with one element
//!   (same function). That element is the first element of an earlier work request, whose buffer
//!   the READ overwrites.
//! - If it rejects a work request after others, it may return 0 (`siw_post_send`).
//!
//! So a context of siw gets a `post_send` from this crate, which handles all four cases and calls
//! libsiw's.

// No model: the address of libsiw's function is stored once, before the first context that uses it
// is returned.

use std::ffi::c_int;
use std::ptr;
use std::sync::OnceLock;

use super::provider::Provider;
use super::types::*;

type PostSend = unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int;

/// libsiw's function, the same in each context.
static LIBSIW: OnceLock<PostSend> = OnceLock::new();

/// Replaces libsiw's `post_send`, if the context belongs to siw.
///
/// # Safety
/// `context` is live, belongs to libibverbs and this provider, and is not shared yet.
pub(crate) unsafe fn mend(context: *mut ibv_context, provider: Provider) {
    if provider == Provider::Siw {
        // SAFETY: the context is live, and no other code reads the field now (this function's
        // contract).
        unsafe {
            let at = &raw mut (*context).ops.post_send;
            if let Some(theirs) = at.read() {
                LIBSIW.get_or_init(|| theirs);
                at.write(Some(post_send));
            }
        }
    }
}

/// # Safety
/// As for `ibv_post_send`, on a queue pair of a context that was mended.
unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let Some(theirs) = LIBSIW.get() else { return libc::EOPNOTSUPP };
    // SAFETY: this function has the contract of the verb.
    unsafe { post_by(*theirs, qp, first, bad) }
}

/// Posts the list with `theirs`, up to the first work request that the kernel does not accept.
///
/// # Safety
/// As for `ibv_post_send`, and `theirs` belongs to the provider of the queue pair.
unsafe fn post_by(
    theirs: PostSend,
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    let (mut last, mut wr) = (ptr::null_mut::<ibv_send_wr>(), first);
    // SAFETY: `first` is a list that the queue pair may have, ends with a null `next`, and belongs
    // to the provider until the verb returns; `bad` is writable (this function's contract).
    unsafe {
        while !wr.is_null() && !is_refused(wr) {
            if (*wr).opcode == ibv_wr_opcode::IBV_WR_SEND_WITH_INV {
                let key = (&raw const (*wr).imm_data_invalidated_rkey_union).cast::<u32>().read();
                (&raw mut (*wr).wr.rdma.rkey).write(key);
            }
            (last, wr) = (wr, (*wr).next);
        }
        if wr.is_null() {
            return post_all(theirs, qp, first, bad);
        }
        if !last.is_null() {
            // The work requests before it are posted, as a provider does.
            (*last).next = ptr::null_mut();
            let code = post_all(theirs, qp, first, bad);
            (*last).next = wr;
            if code != 0 {
                return code;
            }
        }
        *bad = wr;
    }
    libc::EINVAL
}

/// Posts the list with `theirs`. If libsiw rejects a work request, it rings the doorbell for those
/// before it, and returns the doorbell's result: 0, with `bad_wr` set. That is treated as a
/// rejection.
///
/// # Safety
/// As for `post_by`.
unsafe fn post_all(
    theirs: PostSend,
    qp: *mut ibv_qp,
    first: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: this function has the contract of the verb; `bad` is writable. A `bad_wr` is in the
    // list.
    unsafe {
        bad.write(ptr::null_mut());
        match theirs(qp, first, bad) {
            0 if !(*bad).is_null() => match (*(*bad)).opcode {
                ibv_wr_opcode::IBV_WR_SEND
                | ibv_wr_opcode::IBV_WR_SEND_WITH_INV
                | ibv_wr_opcode::IBV_WR_RDMA_WRITE
                | ibv_wr_opcode::IBV_WR_RDMA_READ => libc::ENOMEM,
                // No other opcodes are accepted.
                _ => libc::EINVAL,
            },
            code => code,
        }
    }
}

/// Whether the kernel rejects this work request, or reads into a buffer that it does not name.
///
/// # Safety
/// `wr` is a work request.
unsafe fn is_refused(wr: *const ibv_send_wr) -> bool {
    // SAFETY: a work request has an opcode, flags and a number of elements (this function's
    // contract).
    let (opcode, flags, num_sge) = unsafe { ((*wr).opcode, (*wr).send_flags, (*wr).num_sge) };
    let has = |flag: ibv_send_flags| flags & flag.0 != 0;
    match opcode {
        ibv_wr_opcode::IBV_WR_SEND_WITH_INV => has(ibv_send_flags::IBV_SEND_INLINE),
        ibv_wr_opcode::IBV_WR_RDMA_READ => has(ibv_send_flags::IBV_SEND_FENCE) || num_sge == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const KEY: u32 = 0xabc0;
    const SEND: u32 = ibv_wr_opcode::IBV_WR_SEND;
    const INV: u32 = ibv_wr_opcode::IBV_WR_SEND_WITH_INV;
    const READ: u32 = ibv_wr_opcode::IBV_WR_RDMA_READ;
    const INLINE: u32 = ibv_send_flags::IBV_SEND_INLINE.0;
    const FENCE: u32 = ibv_send_flags::IBV_SEND_FENCE.0;

    thread_local! {
        /// The opcodes and keys that the provider received, and its answer.
        static GIVEN: RefCell<Vec<(u32, u32)>> = const { RefCell::new(Vec::new()) };
    }

    unsafe extern "C" fn provider(
        _: *mut ibv_qp,
        mut wr: *mut ibv_send_wr,
        _: *mut *mut ibv_send_wr,
    ) -> c_int {
        while !wr.is_null() {
            // SAFETY: the list belongs to this test, and `wr.rdma` is written.
            unsafe {
                let (opcode, rkey) = ((*wr).opcode, (*wr).wr.rdma.rkey);
                GIVEN.with_borrow_mut(|given| given.push((opcode, rkey)));
                wr = (*wr).next;
            }
        }
        0
    }

    /// Posts a list of opcodes and flags. Returns the code, the index of bad_wr, and what libsiw
    /// received.
    fn posted<const N: usize>(list: [(u32, u32); N]) -> (c_int, Option<usize>, Vec<(u32, u32)>) {
        posted_by(provider, &list)
    }

    fn posted_by(theirs: PostSend, list: &[(u32, u32)]) -> (c_int, Option<usize>, Vec<(u32, u32)>) {
        posted_with(theirs, list, 1)
    }

    /// Each work request has `num_sge` elements.
    fn posted_with(
        theirs: PostSend,
        list: &[(u32, u32)],
        num_sge: c_int,
    ) -> (c_int, Option<usize>, Vec<(u32, u32)>) {
        let n = list.len();
        let with = |&(opcode, send_flags): &(u32, u32)| {
            let mut wr = ibv_send_wr { opcode, send_flags, num_sge, ..zeroed() };
            let at = (&raw mut wr.imm_data_invalidated_rkey_union).cast::<u32>();
            // SAFETY: the union begins with the key.
            unsafe { at.write(KEY) };
            wr
        };
        let mut wrs: Vec<_> = list.iter().map(with).collect();
        let first = wrs.as_mut_ptr();
        let mut bad = ptr::null_mut();
        // SAFETY: the pointers are within the array; the provider belongs to this test.
        let code = unsafe {
            for i in 1..n {
                (*first.add(i - 1)).next = first.add(i);
            }
            let code = post_by(theirs, ptr::null_mut(), first, &mut bad);
            // The list is restored.
            for i in 1..n {
                assert_eq!((*first.add(i - 1)).next, first.add(i));
            }
            code
        };
        let index = wrs.iter().position(|wr| ptr::eq(wr, bad));
        (code, index, GIVEN.take())
    }

    #[test]
    fn the_key_is_put_where_libsiw_reads_it() {
        let given = vec![(SEND, 0), (INV, KEY), (READ, 0)];
        assert_eq!(posted([(SEND, INLINE), (INV, 0), (READ, 0)]), (0, None, given));
    }

    #[test]
    fn work_requests_that_would_stop_the_queue_are_rejected_first() {
        assert_eq!(posted([(INV, INLINE)]), (libc::EINVAL, Some(0), vec![]));
        assert_eq!(posted([(READ, FENCE), (SEND, 0)]), (libc::EINVAL, Some(0), vec![]));
        let before = vec![(SEND, 0), (INV, KEY)];
        let list = [(SEND, FENCE), (INV, 0), (INV, INLINE), (SEND, 0)];
        assert_eq!(posted(list), (libc::EINVAL, Some(2), before));
    }

    #[test]
    fn a_read_without_an_element_is_rejected() {
        let list = [(SEND, 0), (INV, 0), (READ, 0), (SEND, 0)];
        let before = vec![(SEND, 0), (INV, KEY)];
        assert_eq!(posted_with(provider, &list, 0), (libc::EINVAL, Some(2), before));
    }

    /// libsiw with room for two work requests, and without immediates.
    unsafe extern "C" fn full_after_two(
        _: *mut ibv_qp,
        mut wr: *mut ibv_send_wr,
        bad: *mut *mut ibv_send_wr,
    ) -> c_int {
        for taken in 0.. {
            // SAFETY: the list and its `bad_wr` belong to this test.
            unsafe {
                let is_rejected = !wr.is_null()
                    && (taken == 2 || (*wr).opcode == ibv_wr_opcode::IBV_WR_SEND_WITH_IMM);
                if is_rejected {
                    bad.write(wr);
                }
                if is_rejected || wr.is_null() {
                    break;
                }
                wr = (*wr).next;
            }
        }
        0
    }

    /// If a post returned 0 with a `bad_wr`, the queue pair would keep the buffers after it.
    #[test]
    fn a_rejection_after_others_is_an_error() {
        const IMM: u32 = ibv_wr_opcode::IBV_WR_SEND_WITH_IMM;
        let ends = |list: &[u32]| {
            let list: Vec<_> = list.iter().map(|&opcode| (opcode, 0)).collect();
            let (code, index, _) = posted_by(full_after_two, &list);
            (code, index)
        };
        assert_eq!(ends(&[SEND, SEND]), (0, None));
        assert_eq!(ends(&[SEND, INV, SEND, SEND]), (libc::ENOMEM, Some(2)));
        assert_eq!(ends(&[SEND, IMM, SEND]), (libc::EINVAL, Some(1)));
        // The same before one that this module rejects.
        let list = [(SEND, 0), (SEND, 0), (SEND, 0), (READ, FENCE)];
        assert_eq!(posted_by(full_after_two, &list), (libc::ENOMEM, Some(2), vec![]));
    }

    #[test]
    fn only_contexts_of_siw_are_mended() {
        let mut context: ibv_context = zeroed();
        context.ops.post_send = Some(provider);
        for (of, is_mended) in [(Provider::Rxe, false), (Provider::Siw, true)] {
            // SAFETY: the context belongs to this test.
            unsafe { mend(&raw mut context, of) };
            let now = context.ops.post_send.unwrap();
            assert_eq!(!std::ptr::fn_addr_eq(now, provider as PostSend), is_mended);
        }
    }
}
