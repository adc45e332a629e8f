//! Posting, polling and completing allocate nothing: 100,000 work requests of every kind, including
//! rejected and flushed ones.
//!
//! Only the crate's allocations are counted, not the device's: the loopback device reports when it
//! is at work, and a real one does not allocate from Rust. (`PROVERBS_DEVICE` as in the conformance
//! suite.)

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::env;

use proverbs::bounded::{MinRnrTimer, ResponderDepth, RetryCount, RnrRetry, Timeout};
use proverbs::ext::extended_polling::CompletionQueueEx;
use proverbs::loopback::{Fabric, Fault, Script, is_at_work};
use proverbs::memory::Owned;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use proverbs::qp::{Max, RcRtsOptional, RtrOptional};

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes that this thread allocated and did not free.
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

impl Counting {
    fn count() {
        if COUNTING.get() && !is_at_work() {
            ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        }
    }

    fn hold(bytes: isize) {
        HELD.set(HELD.get() + bytes);
    }
}

// SAFETY: `System` does the work; counting touches only this thread's cells, which do not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::count();
        Self::hold(layout.size() as isize);
        // SAFETY: the caller guarantees the layout, as for any allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        Self::count();
        Self::hold(-(layout.size() as isize));
        // SAFETY: `alloc` took it from `System`, with this layout.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::count();
        Self::hold(size as isize - layout.size() as isize);
        // SAFETY: `alloc` took it from `System`, with this layout; the caller guarantees the size.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

profile! { Ring { signaling: Selective } }
profile! { Lists { max_send_sge: 2, max_recv_sge: 2, entry: AnyBuf } }

struct Device {
    ctx: Context,
    gid_index: u8,
    posts: u64,
}

fn device() -> Device {
    match env::var("PROVERBS_DEVICE") {
        Err(_) => on_loopback().1,
        Ok(name) => {
            let index = env::var("PROVERBS_GID_INDEX").unwrap_or_else(|_| "0".into());
            let ctx = Context::open(&name).unwrap();
            // An emulated machine is slow, and fewer posts show the same.
            Device { ctx, gid_index: index.parse().unwrap(), posts: 20_000 }
        }
    }
}

fn on_loopback() -> (Fabric, Device) {
    let fabric = Fabric::new();
    let posts = if cfg!(miri) { 200 } else { 100_000 };
    (fabric.clone(), Device { ctx: fabric.open_device(), gid_index: 1, posts })
}

/// Runs `round` until it has posted enough. The first rounds are not counted, since the device's
/// queues grow there.
fn counted(what: &str, posts: u64, mut round: impl FnMut() -> u64) {
    for _ in 0..4 {
        round();
    }
    ALLOCATIONS.set(0);
    let mut posted = 0;
    while posted < posts {
        COUNTING.set(true);
        posted += round();
        COUNTING.set(false);
    }
    assert_eq!(ALLOCATIONS.get(), 0, "{what}: {posted} work requests");
    println!("{what}: {posted} work requests, no allocation");
}

fn connect<P: Profile<Initiator = Reads>>(
    dev: &Device,
    qp: QueuePair<Rc, Reset, P>,
    peer: u32,
) -> QueuePair<Rc, Rts, P> {
    let gid = dev.ctx.query_gid(1, dev.gid_index).unwrap();
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr {
        address: AddressVector::roce(1, gid, dev.gid_index),
        path_mtu: Mtu::Bytes1024,
        dest_qpn: Qpn::new(peer).unwrap(),
        rq_psn: Psn::new(0).unwrap(),
        max_dest_rd_atomic: ResponderDepth::new(4).unwrap(),
        min_rnr_timer: MinRnrTimer::new(1).unwrap(),
        optional: RtrOptional::default(),
    };
    let rts = RcRts {
        timeout: Timeout::Infinite,
        retry_cnt: RetryCount::new(6).unwrap(),
        rnr_retry: RnrRetry::Infinite,
        sq_psn: Psn::new(0).unwrap(),
        max_rd_atomic: ReadDepth::ONE,
        optional: RcRtsOptional::default(),
    };
    qp.modify(init).unwrap().modify(rtr).unwrap().modify(rts).unwrap()
}

struct Ends<P: Profile<Receive = OwnRq, Threads = AnyThread>> {
    a: QueuePair<Rc, Rts, P>,
    b: QueuePair<Rc, Rts, P>,
    ca: CompletionQueue<P::Entry>,
    cb: CompletionQueue<P::Entry>,
    pool: Pool,
    pd: ProtectionDomain,
}

fn ends<P: Profile<Receive = OwnRq, Threads = AnyThread, Initiator = Reads>>(
    dev: &Device,
) -> Ends<P> {
    let pd = dev.ctx.alloc_pd().unwrap();
    let (ca, cb) = (dev.ctx.create_cq(80).unwrap(), dev.ctx.create_cq(80).unwrap());
    let pool = pd.create_pool(64, 64).unwrap();
    let depth = Depth { send: 16, recv: 16 };
    let a = pd.create_qp::<Rc, P>(&ca, &ca, depth).unwrap();
    let b = pd.create_qp::<Rc, P>(&cb, &cb, depth).unwrap();
    let (na, nb) = (a.qp_num(), b.qp_num());
    Ends { a: connect(dev, a, nb), b: connect(dev, b, na), ca, cb, pool, pd }
}

/// Polls `n` completions, in batches, and drops them, which returns their buffers.
fn drain<E: Owned>(cq: &mut CompletionQueue<E>, n: usize) {
    let mut seen = 0;
    while seen < n {
        seen += cq.poll().unwrap().count();
    }
}

#[test]
fn every_send_signaled() {
    let dev = device();
    let Ends { mut a, mut b, mut ca, mut cb, pool, pd } = ends::<DefaultProfile>(&dev);
    let region = pd.register::<RemoteAll>(64).unwrap();
    let remote = region.remote();
    let cell = remote.atomic(8).unwrap();
    let take = || pool.take().unwrap();
    counted("chains, lists and single posts", dev.posts / 4, || {
        post_recv!(
            b,
            [
                wr::Recv::new(take()),
                wr::Recv::new(take()),
                wr::Recv::empty(),
                wr::Recv::new(take())
            ]
        )
        .unwrap();
        post_send!(
            a,
            [
                wr::Send::new(take()),
                wr::SendWithImm::inline(b"inline", 7),
                wr::RdmaWriteWithImm::inline_slice(b"12345678", remote.write(), 8),
                wr::RdmaWrite::new(take(), remote.write()),
                wr::RdmaRead::new(take(), remote.read()),
                wr::FetchAndAdd::new(take(), cell, 1),
                wr::CmpAndSwp::new(take(), cell, wr::CompareSwap { compare: 0, swap: 1 }),
            ]
        )
        .unwrap();
        a.post_send(wr::Send::new(wr::Empty)).unwrap();
        drain(&mut ca, 8);
        drain(&mut cb, 4);

        let mut slots = RecvSlots::<8>::new();
        let mut list = b.recv_list(&mut slots);
        for _ in 0..8 {
            list.push(wr::Recv::new(take())).unwrap();
        }
        list.post().unwrap();
        let mut slots = SendSlots::<8>::new();
        let mut list = a.send_list(&mut slots);
        for _ in 0..8 {
            list.push(wr::Send::new(take())).unwrap();
        }
        list.post().unwrap();
        drain(&mut ca, 8);
        // A buffer moves from its completion straight to the next post.
        for _ in 0..8 {
            let received = loop {
                if let Some(completion) = cb.poll_one().unwrap() {
                    break completion;
                }
            };
            let Outcome::Received(received) = received.outcome() else { panic!() };
            a.post_send(wr::RdmaWrite::new(received.entry.unwrap(), remote.write())).unwrap();
        }
        drain(&mut ca, 8);
        12 + 16 + 8
    });
}

#[test]
fn selective_signaling() {
    let dev = device();
    let Ends { mut a, b: _b, mut ca, pool, pd, .. } = ends::<Ring>(&dev);
    let region = pd.register::<RemoteWrite>(64).unwrap();
    let to = region.remote().write();
    let take = || pool.take().unwrap();
    counted("a ring", dev.posts / 4, || {
        for _ in 0..5 {
            let _ = a.post_send_unsignaled(wr::RdmaWrite::new(take(), to)).unwrap();
        }
        let chain = [(); 4].map(|()| wr::RdmaWrite::new(take(), to));
        let [one, two, three, four] = chain;
        post_send!(a, [one, two.signaled(), three, four]).unwrap();
        let mut released = 0;
        while released < 9 {
            for completion in ca.poll().unwrap() {
                released += a.complete(completion).ok().unwrap().released.count();
            }
        }
        9
    });
}

#[test]
fn lists_and_shared_receive_queues() {
    profile! { Shared { receive: SharedRq, entry: AnyBuf, max_send_sge: 2 } }
    let dev = device();
    let Ends { a, ca: mut cq, pool, pd, .. } = ends::<Lists>(&dev);
    let a = a.reset().unwrap();
    let receives = pd.create_pool(16, 64).unwrap();
    let mut srq: SharedReceiveQueue<Rc, AnyBuf, Max<2>> = pd.create_srq(&receives).unwrap();
    let mut on = dev.ctx.create_cq(80).unwrap();
    let b = pd.create_qp::<Rc, Shared>(&on, &on, Depth::on_srq(4, &srq)).unwrap();
    let (na, nb) = (a.qp_num(), b.qp_num());
    let (mut a, _b) = (connect(&dev, a, nb), connect(&dev, b, na));
    let take = || pool.take().unwrap();
    let recv = || wr::Recv::new([receives.take().unwrap(), receives.take().unwrap()]);
    counted("gather lists and a shared receive queue", dev.posts / 8, || {
        post_srq_recv!(srq, [recv(), recv(), recv()]).unwrap();
        srq.post_srq_recv(wr::Recv::new(receives.take().unwrap())).unwrap();
        post_send!(
            a,
            [
                wr::Send::new([take(), take()]),
                wr::Send::new(take()),
                wr::Send::new(BufList::from([take()]))
            ]
        )
        .unwrap();
        a.post_send(wr::Send::inline(b"last")).unwrap();
        drain(&mut cq, 4);
        drain(&mut on, 4);
        8
    });
}

/// Handles that share memory, parts of buffers and buffers of an arena are made, sent and dropped.
#[test]
fn handles_and_parts() {
    let dev = device();
    let Ends { mut a, b: _b, mut ca, pool, pd, .. } = ends::<Lists>(&dev);
    let region = pd.register::<RemoteAll>(4096).unwrap();
    let local = pd.register::<LocalWrite>(4096).unwrap();
    let arena = pd.create_arena(1 << 16, 16).unwrap();
    let there = region.remote().slice(0, 64).unwrap().write();
    let mut kept = Vec::with_capacity(8);
    counted("shared buffers, pieces, parts and arenas", dev.posts / 8, || {
        let shared = pool.take().unwrap().freeze();
        kept.extend((0..8).map(|_| shared.clone()));
        a.post_send(wr::RdmaWrite::new(shared.clone(), there)).unwrap();
        a.post_send(wr::RdmaWrite::new(region.piece(64, 64).unwrap(), there)).unwrap();
        a.post_send(wr::RdmaWrite::new(local.piece(8, 8).unwrap(), there)).unwrap();
        let mut long = arena.take(3000).unwrap();
        let rest = long.split_off(1024).unwrap();
        long.narrow(0..64).unwrap();
        a.post_send(wr::RdmaWrite::new(long, there)).unwrap();
        drop(rest);
        let (mut one, other) = {
            let mut all = arena.take(128).unwrap();
            let other = all.split_off(64).unwrap();
            (all, other)
        };
        one.join(other).unwrap();
        drop(one);
        let mut piece = region.piece(64, 64).unwrap();
        piece.set_range(0, 4096).unwrap();
        piece.set_range(100, 8).unwrap();
        a.post_send(wr::RdmaWrite::new(piece, there)).unwrap();
        let mut shares = pool.take().unwrap().share(3);
        let kept_one = shares.next().unwrap();
        a.post_send(wr::RdmaWrite::new(shares.next().unwrap(), there)).unwrap();
        drop(shares);
        drain(&mut ca, 6);
        drop(kept_one.thaw_if_last::<()>().unwrap());
        kept.clear();
        drop(shared.thaw::<()>().unwrap());
        6
    });
}

/// One thread makes pieces and another drops them: their headers are recycled.
#[test]
fn pieces_that_another_thread_drops() {
    let dev = device();
    let region = dev.ctx.alloc_pd().unwrap().register::<RemoteAll>(4096).unwrap();
    let (to, from) = std::sync::mpsc::sync_channel(1);
    let (back, again) = std::sync::mpsc::sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for mut pieces in from {
                Vec::clear(&mut pieces);
                back.send(pieces).unwrap();
            }
        });
        let mut kept = Vec::with_capacity(48);
        counted("pieces of another thread", dev.posts / 8, || {
            kept.extend((0..48).map(|_| region.piece(64, 64).unwrap()));
            to.send(std::mem::take(&mut kept)).unwrap();
            kept = again.recv().unwrap();
            48
        });
        drop(to);
    });
}

/// A prepared work request is posted repeatedly.
#[test]
fn prepared_work_requests() {
    let dev = device();
    let Ends { mut a, b: _b, mut ca, pool, pd, .. } = ends::<DefaultProfile>(&dev);
    let region = pd.register::<RemoteAll>(64).unwrap();
    let mut write = wr::RdmaWrite::new(wr::Placeholder, region.remote().write()).prepare();
    let mut inline = wr::RdmaWrite::inline(&[1; 8], region.remote().write()).prepare();
    counted("prepared", dev.posts / 8, || {
        for _ in 0..4 {
            a.post_prepared(&mut write, pool.take().unwrap()).unwrap();
            inline.bytes_mut()[0] ^= 1;
            a.post_prepared_inline(&mut inline).unwrap();
        }
        write.refill(wr::RdmaWrite::new(wr::Placeholder, region.remote().write()));
        drain(&mut ca, 8);
        8
    });
}

#[test]
fn refused_posts() {
    let dev = device();
    let Ends { mut a, b: _b, pool, .. } = ends::<DefaultProfile>(&dev);
    let other = dev.ctx.alloc_pd().unwrap();
    let foreign = other.create_pool(4, 8).unwrap();
    let take = || pool.take().unwrap();
    counted("refused by the crate", dev.posts / 8, || {
        let long = [0; 65];
        let error =
            post_send!(a, [wr::Send::new(take()), wr::Send::inline_slice(&long)]).unwrap_err();
        assert_eq!(error.into_rejected().count(), 1);
        assert!(a.post_send(wr::Send::new(foreign.take().unwrap())).is_err());
        let mut slots = SendSlots::<2>::new();
        let mut list = a.send_list(&mut slots);
        list.push(wr::Send::new(take())).unwrap();
        assert!(list.push(wr::Send::inline_slice(&long)).is_err());
        drop(list);
        5
    });
    // The peer has no receives, and the queue is full from then on.
    while a.send_room() > 0 {
        a.post_send(wr::Send::new(take())).unwrap();
    }
    counted("refused because the queue is full", dev.posts / 8, || {
        let error = post_send!(a, [wr::Send::new(take()), wr::Send::new(take())]).unwrap_err();
        assert!(error.is_full());
        drop(error);
        assert!(a.post_send(wr::Send::new(take())).is_err());
        3
    });
}

#[test]
fn refused_by_the_device() {
    let (fabric, dev) = on_loopback();
    let Ends { mut a, b: _b, pool, .. } = ends::<DefaultProfile>(&dev);
    let take = || pool.take().unwrap();
    fabric.inject(Script::default().with(Fault::Refuse { errno: 12 }.always()));
    counted("refused by the device", dev.posts / 8, || {
        let error = post_send!(a, [wr::Send::new(take()), wr::Send::new(take())]).unwrap_err();
        assert_eq!(error.kind(), PostErrorKind::Refused { errno: 12 });
        assert_eq!((error.accepted(), error.into_rejected().count()), (0, 2));
        2
    });
}

#[test]
fn flushed_work_requests() {
    let dev = device();
    let Ends { a, b, mut ca, mut cb, pool, .. } = ends::<DefaultProfile>(&dev);
    drop(b);
    drain(&mut cb, 0);
    let mut a = a.to_error().unwrap();
    counted("flushed", dev.posts / 8, || {
        let [one, two] = [(); 2].map(|()| wr::Send::new(pool.take().unwrap()));
        post_send!(a, [one, two, wr::Send::new(wr::Empty)]).unwrap();
        let mut flushed = 0;
        while flushed < 3 {
            for completion in ca.poll().unwrap() {
                assert!(completion.status().unwrap_err().status.is_flush());
                flushed += 1;
            }
        }
        3
    });
}

#[test]
fn the_counter_counts() {
    ALLOCATIONS.set(0);
    COUNTING.set(true);
    drop(std::hint::black_box(Box::new(1)));
    COUNTING.set(false);
    assert_eq!(ALLOCATIONS.get(), 2, "one allocation, and one that frees it");
}

profile! { OnShared { receive: SharedRq } }

/// All objects of a program, with buffers that are orphaned, shared and forgotten by their queues.
fn one_life(dev: &Device) {
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(64, 256).unwrap();
    let region = pd.register::<RemoteAll>(8192).unwrap();
    drop(wr::Send::inline(&[0; 1024]).prepare());
    let (cq, other) = (dev.ctx.create_cq(64).unwrap(), dev.ctx.create_cq(64).unwrap());
    let _fields: CompletionQueueEx<()> = dev.ctx.cq(8).fields().create().unwrap();
    let depth = Depth { send: 8, recv: 8 };
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &other, depth).unwrap();
    let mut qp = qp.modify(init).unwrap();
    for _ in 0..3 {
        qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    }
    let reset = qp.reset().unwrap();
    let mut qp = reset.modify(init).unwrap();
    qp.post_recv(wr::Recv::new(pool.take().unwrap())).unwrap();
    let ring = pd.create_qp::<Uc, Ring>(&cq, &cq, depth).unwrap();
    let mut ring = ring.modify(init).unwrap().to_error().unwrap();
    let _ = ring.post_send_unsignaled(wr::Send::new(pool.take().unwrap())).unwrap();
    let lists = dev.ctx.create_cq(64).unwrap();
    let gather = pd.create_qp::<Rc, Lists>(&lists, &lists, depth).unwrap();
    let mut gather = gather.modify(init).unwrap().to_error().unwrap();
    let shared = pool.take().unwrap().freeze();
    gather.post_send(wr::Send::new(shared.clone())).unwrap();
    gather.post_send(wr::Send::new(region.piece(8, 8).unwrap())).unwrap();
    let few = pd.create_pool(4, 64).unwrap();
    let mut srq: SharedReceiveQueue<Rc> = pd.create_srq(&few).unwrap();
    let _on_shared = pd.create_qp::<Rc, OnShared>(&cq, &cq, Depth::on_srq(4, &srq)).unwrap();
    srq.post_srq_recv(wr::Recv::new(few.take().unwrap())).unwrap();
    let gid = dev.ctx.query_gid(1, dev.gid_index).unwrap();
    let ah = pd.create_ah(AddressVector::roce(1, gid, dev.gid_index)).unwrap();
    let datagrams = dev.ctx.create_cq(64).unwrap();
    let mut ud = pd.create_qp::<Ud, DefaultProfile>(&datagrams, &datagrams, depth).unwrap();
    let name = ud.add_address_handle(ah).unwrap();
    assert!(ud.remove_address_handle(name));
}

#[test]
fn dropped_objects_are_freed() {
    let dev = device();
    // Permanent allocations exist after the first life, but for a table for every 16th domain.
    for _ in 0..if cfg!(miri) { 3 } else { 16 } {
        one_life(&dev);
    }
    let held = HELD.get();
    for _ in 0..if cfg!(miri) { 2 } else { 20 } {
        one_life(&dev);
    }
    // Tables of the process and of the device grow in steps: far less than a pool's memory per
    // life.
    let more = HELD.get() - held;
    assert!(more < 4096, "{more} bytes are lost");
}

/// Memory that a device refuses to release is not freed, since it may write there.
#[test]
fn memory_that_the_device_keeps_is_not_freed() {
    use proverbs::loopback::{Fault, Script};
    const SIZE: usize = 1 << 20;
    let fabric = Fabric::new();
    let pd = fabric.open_device().alloc_pd().unwrap();
    for refused in [false, true] {
        let held = HELD.get();
        let (region, pool) = (pd.register::<RemoteWrite>(SIZE).unwrap(), pd.create_pool(1, SIZE));
        if refused {
            fabric.inject(Script::default().with(Fault::Busy.always()));
        }
        drop((region, pool));
        let more = HELD.get() - held;
        let kept = if refused { 2 * SIZE as isize } else { 0 };
        assert!((kept..kept + 4096).contains(&more), "{more} bytes are kept");
    }
}
