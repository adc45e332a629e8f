//! Sizes of zero, sizes that are too large, and sizes that overflow.

use proverbs::memory::TooLong;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;

use crate::support::*;

#[test]
fn pool_and_region_sizes() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    const HALF: usize = u32::MAX as usize / 2;
    let mut sizes =
        vec![(0, 0), (0, 64), (usize::MAX, 1), (1, usize::MAX), (HALF + 1, 1), (1, HALF + 1)];
    if !cfg!(miri) {
        // Miri would try to allocate the memory.
        sizes.extend([(HALF, HALF), (1 << 20, HALF)]);
        assert!(pd.register::<RemoteAll>(isize::MAX as usize - 4095).is_err());
    }
    for (count, size) in sizes {
        assert!(pd.create_pool(count, size).is_err(), "{count} of {size}");
    }
    for len in [0, usize::MAX, isize::MAX as usize] {
        assert!(pd.register::<RemoteAll>(len).is_err(), "{len}");
    }
    let pool = pd.create_pool(1, 0).unwrap();
    let mut buf = pool.take().unwrap();
    assert_eq!(buf.capacity(), 8);
    buf.set_len(usize::MAX);
    let refused = buf.copy_from(&[7; 100]).unwrap_err();
    assert_eq!((refused.asked, refused.capacity), (100, 8));
    buf.copy_from(&[7; 8]).unwrap();
    assert_eq!(&buf[..], [7; 8]);
    pd.destroy().unwrap_err();
}

#[test]
fn contexts_of_every_alignment_and_size() {
    #[repr(align(4096))]
    struct Aligned(u8);
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let aligned = pd.pool(8).contexts(|i| Aligned(i as u8)).create(3).unwrap();
    let mut all: Vec<_> = std::iter::from_fn(|| aligned.take()).collect();
    for buf in &mut all {
        assert_eq!(&raw const *buf.context() as usize % 4096, 0);
        buf.context_mut().0 += 1;
    }
    let sum: u8 = all.iter().map(|buf| buf.context().0).sum();
    assert_eq!((all.len(), sum), (3, 6));
    drop(all);
    let large = pd.pool(8).contexts(|_| [1u8; 1000]).create(2).unwrap();
    assert_eq!(large.take().unwrap().context()[999], 1);
}

#[test]
fn queue_sizes() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    for cqe in [0, u32::MAX, 1 << 31] {
        assert!(dev.ctx.create_cq::<Buf>(cqe).is_err(), "{cqe}");
    }
    let cq = dev.ctx.create_cq::<Buf>(20).unwrap();
    let free = cq.unbooked();
    for (send, recv) in
        [(u32::MAX, 1), (1, u32::MAX), (u32::MAX / 4, 1), (1 << 30, 1 << 30), (20, 20)]
    {
        assert!(pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send, recv }).is_err());
        assert_eq!(cq.unbooked(), free);
    }
    // A queue pair of depth 0: every post is rejected, and returns its buffers.
    let pool = pd.create_pool(2, 64).unwrap();
    let mut cq = cq;
    let Ok(qp) = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 0, recv: 0 }) else {
        return;
    };
    let mut qp = Rc::up(qp, &dev, 0xfffff0, &Wish::new());
    assert!(qp.post_send(wr::Send::new(poisoned(&pool))).unwrap_err().is_full());
    assert!(qp.post_recv(wr::Recv::new(poisoned(&pool))).unwrap_err().is_full());
    assert_eq!(pool.available(), 2);
    let mut qp = qp.to_error().unwrap();
    qp.drain(&mut cq, |_| unreachable!("nothing was posted")).unwrap();
}

#[test]
fn empty_lists_and_lists_too_long() {
    fails_on!(Iwarp, "R24.4");
    profile! { Lists { entry: BufList, max_send_sge: 32, max_recv_sge: 32 } }
    let Pair { mut a, mut b, mut ca, mut cb, pool, dev, .. } = Pair::<Rc, Lists>::new();
    b.post_recv(wr::Recv::new(BufList::new())).unwrap();
    a.post_send(wr::Send::new(BufList::new())).unwrap();
    assert!(poll(&dev, &mut cb, 1).remove(0).received().entry.is_none());
    assert!(poll(&dev, &mut ca, 1).remove(0).sent().entry.is_none());
    // Empty buffers: an entry without an element.
    let empty = || {
        let mut buf = poisoned(&pool);
        buf.set_len(0);
        buf
    };
    b.post_recv(wr::Recv::new(BufList::from([poisoned(&pool)]))).unwrap();
    a.post_send(wr::Send::new(BufList::from([empty(), empty()]))).unwrap();
    assert_eq!(poll(&dev, &mut cb, 1).remove(0).received().byte_len, 0);
    assert_eq!(poll(&dev, &mut ca, 1).remove(0).sent().entry.unwrap().len(), 2);
    // One more than there is room for, in every form.
    let long: BufList = std::iter::from_fn(|| pool.take()).take(33).collect();
    let error = a.post_send(wr::Send::new(long)).unwrap_err();
    assert_eq!(error.kind(), PostErrorKind::TooManySge { asked: 33, max: 32 });
    let long = error.into_rejected().next().unwrap();
    assert_eq!(long.len(), 33);
    let error = post_recv!(b, [wr::Recv::new(long)]).unwrap_err();
    let long = error.into_rejected().next().unwrap();
    let mut slots = SendSlots::<1, 1>::new();
    let mut list = a.send_list(&mut slots);
    let error = list.push(wr::Send::new(long)).unwrap_err();
    assert_eq!(error.into_rejected().next().unwrap().len(), 33);
    drop(list);
    assert_eq!(pool.available(), 40);
}

/// Bytes that do not fit are not truncated silently; the buffer is unchanged.
///
/// Filling a buffer rejects bytes that do not fit instead of truncating them.
#[test]
fn bytes_that_do_not_fit_are_not_copied() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(1, 16).unwrap();
    let mut buf = pool.take().unwrap();
    buf.copy_from(&[1; 16]).unwrap();
    buf.copy_from(b"before").unwrap();
    assert_eq!(buf.copy_from(&[2; 17]), Err(TooLong { asked: 17, capacity: 16 }));
    assert_eq!(&buf[..], b"before");
    buf.set_len(16);
    assert_eq!(buf[6..], [1; 10]);
    // The slice method of that name is not hidden.
    buf.fill(3);
    assert_eq!(buf[..], [3; 16]);
}

/// An empty READ returns nothing, even into the longest possible piece. (A port may report
/// unlimited messages.)
///
/// A zero-length READ into a piece of 2^32 - 1 bytes reads no bytes.
#[test]
fn an_empty_read_into_the_longest_piece() {
    profile! { Mixed { entry: AnyBuf } }
    let world = proverbs::loopback::World::ipv4().messages(Mtu::Bytes1024, u32::MAX);
    let fabric = proverbs::loopback::Fabric::with(world);
    let mut p = Pair::<Rc, Mixed>::on(Device::loopback(&fabric), &Wish::new());
    let null = p.pd.alloc_null_mr().unwrap();
    let region = p.pd.register::<RemoteRead>(64).unwrap();
    let nothing = region.remote().slice(0, 0).unwrap().read();
    let longest = null.len();
    assert_eq!(longest, u32::MAX as usize - 1);
    assert!(null.piece(0, longest + 1).is_err());
    for len in [longest, longest - 1, 1] {
        p.a.post_send(wr::RdmaRead::new(null.piece(0, len).unwrap(), nothing)).unwrap();
        poll(&p.dev, &mut p.ca, 1).remove(0).sent();
    }
}
