//! A region that only its window keeps, in memory whose keeper panics when it is dropped. And a
//! bind that is released without a separate completion.

#![allow(unsafe_code)] // a keeper; posts past the bounds

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::ext::windows::{BoundWindow, WindowEntry, Windowed};
use crate::loopback::{self, Fault, Pair, Script};
use crate::memory::own::{ExternalMemory, Private, Writable};
use crate::post::chain::SendPost;
use crate::prelude::*;
use crate::qp::AnyQueuePair;
use crate::state::QpState;

profile! { Windows { entry: AnyBuf } }

struct Keeper {
    bytes: *mut [u64; 8],
    drops: Arc<AtomicUsize>,
}

// SAFETY: it owns the bytes.
unsafe impl std::marker::Send for Keeper {}
// SAFETY: it does not give access to the bytes.
unsafe impl Sync for Keeper {}

impl Drop for Keeper {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw`, and dropped once.
        drop(unsafe { Box::from_raw(self.bytes) });
        self.drops.fetch_add(1, SeqCst);
        resume_unwind(Box::new("a keeper that panics"));
    }
}

/// A pair whose first end has bound a window. Only the window keeps its region.
fn pair_with_window() -> (Pair<Windows>, BoundWindow<RemoteWrite>, Arc<AtomicUsize>) {
    let mut pair = loopback::pair_of::<Windows>().unwrap();
    let bytes = Box::into_raw(Box::new([0; 8]));
    let drops = Arc::new(AtomicUsize::new(0));
    let keeper = Keeper { bytes, drops: drops.clone() };
    // SAFETY: the bytes of the box, which the keeper frees when it is dropped, and not before.
    let memory = unsafe {
        ExternalMemory::<_, Private, Writable>::new(
            NonNull::new_unchecked(bytes.cast()),
            64,
            keeper,
        )
    };
    let region = pair.pd.region::<Windowed<LocalWrite>>().create_in(memory).unwrap();
    let window = pair.a.alloc_mw().unwrap();
    let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
    pair.a.post_send(bind).unwrap();
    drop(region);
    let sent = pair.cq.poll_one().unwrap().unwrap();
    let Some(AnyBuf::Window(window)) = sent.into_entry() else { panic!("it has its window") };
    (pair, window.into_bound().unwrap(), drops)
}

#[test]
fn a_reset_that_lets_a_region_go() {
    let (pair, window, drops) = pair_with_window();
    let mut qp = AnyQueuePair::from(pair.a);
    assert!(catch_unwind(AssertUnwindSafe(|| qp.reset())).is_err());
    assert_eq!((drops.load(SeqCst), qp.state()), (1, QpState::Reset));
    qp.reset().unwrap();
    drop(window);
}

#[test]
fn a_queue_pair_that_goes_and_lets_a_region_go() {
    let (pair, window, drops) = pair_with_window();
    let Pair { mut a, mut cq, pool, pd, b, .. } = pair;
    let free = pool.available();
    a.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    assert!(catch_unwind(AssertUnwindSafe(|| drop(a))).is_err());
    assert_eq!(drops.load(SeqCst), 1);
    while cq.poll_one().unwrap().is_some() {}
    drop((b, cq, window));
    assert_eq!(pool.available(), free);
    drop(pool);
    pd.destroy().unwrap();
}

/// If a keeper panics, the counters of receives that the device still owns are not freed.
#[test]
fn a_queue_pair_that_stays_and_lets_a_region_go() {
    let (pair, window, drops) = pair_with_window();
    let Pair { mut a, mut cq, pool, b, fabric, .. } = pair;
    let free = pool.available();
    a.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let (number, counters) = (a.qp_num(), Arc::downgrade(&a.core.counters));
    fabric.inject(Script::seeded(0).with(Fault::Busy.always().on_qp(number)));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(a))).is_err());
    assert_eq!(drops.load(SeqCst), 1);
    while cq.poll_one().unwrap().is_some() {}
    drop((b, cq, window));
    // The device may fill the buffer, which names the counters.
    assert_eq!((pool.available(), counters.strong_count() != 0), (free - 1, true));
}

profile! { Ring { signaling: Selective, entry: AnyBuf } }

/// A ring releases an entry with the completion of a later work request, which does not report the
/// state of a window. The bounds of all posts keep windows out of rings
/// ([R19.2](crate::guide::rules#r19-2)). If one gets through anyway, its window is neither bound,
/// nor lent, nor unbound.
#[test]
fn a_bind_without_a_completion_of_its_own_proves_nothing() {
    /// Binds a window, which no safe function does, and posts a send after it, whose completion
    /// releases both.
    fn released(lends: bool) -> (WindowEntry, Pair<Ring>) {
        let mut pair = loopback::pair_of::<Ring>().unwrap();
        let region = pair.pd.register::<Windowed<LocalWrite>>(64).unwrap();
        let window = pair.a.alloc_mw().unwrap();
        let bind = ext::windows::BindMw::<RemoteWrite>::new(window, &region, 0..64).unwrap();
        let post = SendPost::<Rc, Ring>::new(&mut pair.a.core.send);
        // SAFETY: the bounds of `post_send` hold, except R19.2, which this test breaks.
        unsafe {
            match lends {
                false => post.one(bind).unwrap(),
                true => post.one(bind.lend().0).unwrap(),
            }
        }
        pair.b.post_recv(wr::Recv::new(pair.pool.take().unwrap())).unwrap();
        pair.a.post_send(wr::Send::inline(b"marker")).unwrap();
        loop {
            let Some(completion) = pair.cq.poll_one().unwrap() else { continue };
            let Ok(mut done) = pair.a.complete(completion) else { continue };
            done.status.unwrap();
            let Some(AnyBuf::Window(window)) = done.released.next() else {
                panic!("the window is released first");
            };
            drop(done);
            return (window, pair);
        }
    }
    let says = |error: crate::Refused<WindowEntry>| {
        let text = error.error.to_string();
        assert!(text.contains("without a separate completion"), "{text}");
        error.into_object()
    };
    for lends in [false, true] {
        let (window, _pair) = released(lends);
        let window = says(window.into_bound::<RemoteWrite>().unwrap_err());
        let window = says(window.into_lent().unwrap_err());
        says(window.into_unbound().unwrap_err()).destroy().unwrap();
    }
}

/// The lower 8 bits of a key count and wrap. The others belong to the window.
#[test]
fn the_next_key_counts_in_the_lower_bits() {
    use crate::memory::window::next_key;
    assert_eq!([0x1200, 0x12fe, 0x12ff].map(next_key), [0x1201, 0x12ff, 0x1200]);
}

/// A device may report a correct checksum beside an invalidated key. Only on Soft-RoCE does the
/// flag of the checksum mean a key.
#[test]
fn a_checksum_is_not_a_key() {
    use crate::memory::header::word;
    use crate::sys::types::{ibv_cq, ibv_wc, ibv_wc_flags, ibv_wc_opcode};
    thread_local! { static FLAGS: std::cell::Cell<u32> = const { std::cell::Cell::new(0) } }
    unsafe extern "C" fn one(_: *mut ibv_cq, _: i32, to: *mut ibv_wc) -> i32 {
        let (wr_id, opcode) = ((word::NONE | word::RECEIVE) as u64, ibv_wc_opcode::IBV_WC_RECV);
        // SAFETY: the caller has room for at least one completion, for which zeroes are a valid
        // value. The union is one number.
        unsafe {
            to.write(ibv_wc { wr_id, opcode, wc_flags: FLAGS.get(), ..std::mem::zeroed() });
            (&raw mut (*to).imm_data_invalidated_rkey_union).cast::<u32>().write(0x1234);
        }
        1
    }
    let context = loopback::Fabric::new().open_device();
    let mut cq: CompletionQueue = context.create_cq(4).unwrap();
    // SAFETY: the context is live. This is a pointer, because polls read the context at the same
    // time.
    let poll_cq = unsafe { &raw mut (*context.handle.as_ptr()).ops.poll_cq };
    // SAFETY: the context is live, and no other thread reads or writes the field at this moment.
    let device = unsafe { poll_cq.replace(Some(one)) };
    let (key, sum) = (ibv_wc_flags::IBV_WC_WITH_INV.0, ibv_wc_flags::IBV_WC_IP_CSUM_OK.0);
    let named = Some(0x1234);
    for (flags, rkey) in [(0, None), (key, named), (sum, None), (key | sum, named)] {
        FLAGS.set(flags);
        let completion = cq.poll_one().unwrap().unwrap();
        assert_eq!(completion.invalidated_rkey(), rkey, "{flags:#x}");
        std::mem::forget(completion); // no queue posted it
    }
    // SAFETY: the completion queue keeps the context, and no other thread reads or writes the field
    // at this moment.
    unsafe { poll_cq.write(device) };
}
