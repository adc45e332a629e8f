//! A provider may send from a program's pages after it reported that the memory is free. siw does
//! so for unsignaled sends and for READ responses, which TCP may retransmit. A delay on the network
//! device (`tests/interop/zero_copy.sh`) makes the race easy to hit.

use std::time::{Duration, Instant};

use proverbs::prelude::*;

use crate::support::*;

profile! { Ring { signaling: Selective, initiator: NoReads } }
profile! { Each { signaling: SignalAll } }

const BEFORE: u8 = 0x11;
const AFTER: u8 = 0x22;
const DEPTH: Depth = Depth { send: 8, recv: 8 };

/// The number of bytes of a region that are `AFTER`, once all of them were written.
fn late_bytes(region: &MemoryRegion<RemoteWrite>) -> usize {
    let mut got = vec![0; region.len()];
    let end = Instant::now() + Duration::from_secs(60);
    while got.contains(&0) {
        assert!(Instant::now() < end, "the WRITE never arrived");
        std::thread::yield_now();
        region.read_at(0, &mut got).unwrap();
    }
    got.iter().filter(|&&byte| byte == AFTER).count()
}

/// A ring returns a buffer with a later completion. Either the device refuses rings, or the peer
/// receives none of the bytes that the program writes afterwards.
#[test]
fn a_ring_returns_no_buffer_that_is_still_sent() {
    const LEN: usize = 1 << 20;
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq = dev.ctx.create_cq(40).unwrap();
    let Ok(a) = pd.create_qp::<Rc, Ring>(&cq, &cq, DEPTH) else {
        return;
    };
    let b = pd.create_qp::<Rc, Ring>(&cq, &cq, DEPTH).unwrap();
    let (mut a, _b) = Rc::connect((a, &pd), (b, &pd), &dev, &Wish::new());
    let pool = pd.create_pool(1, LEN).unwrap();
    let there = pd.register::<RemoteWrite>(LEN).unwrap();
    let flag = pd.register::<RemoteWrite>(8).unwrap();
    let mut buf = pool.take().unwrap();
    buf.fill(BEFORE);
    let _debt = a.post_send_unsignaled(wr::RdmaWrite::new(buf, there.remote().write())).unwrap();
    a.post_send(wr::RdmaWrite::inline(&[1; 8], flag.remote().write())).unwrap();
    let (status, mut back) = complete(&dev, &mut cq, &mut a, 1).remove(0);
    assert_eq!((status, back.len()), (Ok(()), 1));
    back[0].fill(AFTER);
    assert_eq!(late_bytes(&there), 0, "of {LEN} bytes, these were sent after the completion");
}

/// The completion of a signaled send ends all access to its buffer, on every device.
#[test]
fn a_completion_returns_no_buffer_that_is_still_sent() {
    const LEN: usize = 1 << 20;
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(40).unwrap();
    let qp = || pd.create_qp::<Rc, Each>(&cq, &cq, DEPTH).unwrap();
    let (mut a, _b) = Rc::connect((qp(), &pd), (qp(), &pd), &dev, &Wish::new());
    let pool = pd.create_pool(1, LEN).unwrap();
    let there = pd.register::<RemoteWrite>(LEN).unwrap();
    let mut buf = pool.take().unwrap();
    buf.fill(BEFORE);
    a.post_send(wr::RdmaWrite::new(buf, there.remote().write())).unwrap();
    let mut buf = poll(&dev, &mut cq, 1).remove(0).sent().entry.unwrap();
    buf.fill(AFTER);
    assert_eq!(late_bytes(&there), 0, "of {LEN} bytes, these were sent after the completion");
}

/// READs a whole region and ends the region in the middle, after `delay`. `end` returns memory that
/// belongs to the program from then on. Returns how many of its bytes the reader received.
fn read_of_a_region_that_ends<M: 'static>(
    delay: Duration,
    register: impl FnOnce(&ProtectionDomain, usize) -> MemoryRegion<RemoteRead, M>,
    end: impl FnOnce(MemoryRegion<RemoteRead, M>) -> Vec<Vec<u8>>,
) -> usize {
    const LEN: usize = 1 << 17;
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq(40).unwrap();
    let qp = || pd.create_qp::<Rc, Each>(&cq, &cq, DEPTH).unwrap();
    let (mut a, _b) = Rc::connect((qp(), &pd), (qp(), &pd), &dev, &Wish::new());
    let pool = pd.create_pool(1, LEN).unwrap();
    let there = register(&pd, LEN);
    let buf = pool.take().unwrap();
    a.post_send(wr::RdmaRead::new(buf, there.remote().read())).unwrap();
    std::thread::sleep(delay);
    let _own = end(there);
    // The request may arrive after the region has ended.
    let buf = match poll(&dev, &mut cq, 1).remove(0) {
        Done::Failed(failed) => failed.entry,
        done => done.sent().entry,
    };
    buf.unwrap().iter().filter(|&&byte| byte == AFTER).count()
}

/// At moments before, during and after the response, which is delayed by 50 ms.
fn at_each_moment(mut run: impl FnMut(Duration)) {
    for ms in [0, 40, 55, 60, 70, 90, 120] {
        run(Duration::from_millis(ms));
    }
}

/// Memory that `destroy` returns belongs only to the program. Either it is not returned, or the
/// reader receives none of the bytes that are written afterwards.
#[test]
fn a_region_returns_no_memory_that_is_still_read() {
    at_each_moment(|delay| {
        let late = read_of_a_region_that_ends(
            delay,
            |pd, len| pd.region::<RemoteRead>().create_in(vec![BEFORE; len]).unwrap(),
            |region| match region.destroy() {
                Ok(mut bytes) => {
                    bytes.fill(AFTER);
                    vec![bytes]
                }
                Err(refused) => {
                    drop(refused.into_object());
                    Vec::new()
                }
            },
        );
        assert_eq!(late, 0, "these were sent after ibv_dereg_mr, {delay:?}");
    });
}

/// Memory of a dropped region is not allocated again while the device may read it.
#[test]
fn dropped_memory_is_not_reused_while_it_is_still_read() {
    fn fresh<M: 'static>(region: MemoryRegion<RemoteRead, M>) -> Vec<Vec<u8>> {
        let len = region.len();
        drop(region);
        (0..16).map(|_| vec![AFTER; len]).collect()
    }
    at_each_moment(|delay| {
        let pages = |pd: &ProtectionDomain, len| {
            let region = pd.register::<RemoteRead>(len).unwrap();
            region.write_at(0, &vec![BEFORE; len]).unwrap();
            region
        };
        let late = read_of_a_region_that_ends(delay, pages, fresh);
        assert_eq!(late, 0, "pages that were sent after ibv_dereg_mr, {delay:?}");
        let vector = |pd: &ProtectionDomain, len| {
            pd.region::<RemoteRead>().create_in(vec![BEFORE; len]).unwrap()
        };
        let late = read_of_a_region_that_ends(delay, vector, fresh);
        assert_eq!(late, 0, "a vector that was sent after ibv_dereg_mr, {delay:?}");
    });
}
