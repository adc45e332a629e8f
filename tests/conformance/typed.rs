//! Plain data in buffers and regions.

use proverbs::prelude::*;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::support::*;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, Debug, PartialEq)]
#[repr(C)]
struct Request {
    key: u64,
    count: u32,
    flags: u32,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Debug, PartialEq)]
#[repr(C, align(64))]
struct Line([u64; 8]);

const REQUEST: Request = Request { key: 1 << 40, count: 3, flags: 9 };

#[test]
fn structs_are_sent_and_received_in_place() {
    let mut p = Pair::<Rc>::new();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    p.b.post_recv(wr::Recv::new(poisoned(&p.pool))).unwrap();
    let mut buf = p.pool.take().unwrap();
    buf.set(&REQUEST).unwrap();
    assert_eq!(buf.len(), 16);
    p.a.post_send(wr::Send::new(buf)).unwrap();
    // Created in the buffer that is sent.
    let mut buf = p.pool.take().unwrap();
    buf.set_len(32);
    let made: &mut [Request; 2] = buf.view_mut().unwrap();
    *made = [REQUEST; 2];
    made[1].key = 2;
    p.a.post_send(wr::Send::new(buf)).unwrap();
    poll(&p.dev, &mut p.ca, 2);
    let mut got = poll(&p.dev, &mut p.cb, 2).into_iter().map(|got| got.received().entry.unwrap());
    let mut first = got.next().unwrap();
    assert_eq!(first.view::<Request>().unwrap(), &REQUEST);
    first.view_mut::<Request>().unwrap().count += 1;
    assert_eq!(first.view::<Request>().unwrap().count, 4);
    let mut second = got.next().unwrap();
    let requests: &[Request] = second.view_slice().unwrap();
    assert_eq!((requests.len(), requests[0], requests[1].key), (2, REQUEST, 2));
    second.view_slice_mut::<u32>().unwrap()[0] = 7;
    assert_eq!(second.freeze().view::<[u32; 8]>().unwrap()[0], 7);
}

#[test]
fn sizes_that_do_not_fit_are_reported() {
    let p = Pair::<Rc>::new();
    let mut buf = p.pd.create_pool(1, 8).unwrap().take().unwrap();
    buf.copy_from(b"before").unwrap();
    let error = buf.set(&REQUEST).unwrap_err();
    assert_eq!(error.to_string(), "16 bytes exceed the buffer's capacity of 8");
    assert_eq!(&buf[..], b"before");
    assert_eq!(buf.view::<u32>().unwrap_err().to_string(), "6 bytes do not fit `u32`, which has 4");
    let error = buf.view_slice_mut::<u32>().unwrap_err();
    assert_eq!((error.size, error.len, error.align), (4, 6, 4));
    // Buffers of 24 bytes are aligned to 8, and some of them to more.
    let pool = p.pd.create_pool(3, 72).unwrap();
    let mut bufs: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    let refused: Vec<_> = bufs
        .iter_mut()
        .filter_map(|buf| {
            buf.set_len(64);
            buf.view_mut::<Line>().err()
        })
        .collect();
    assert_eq!(refused.len(), 2);
    assert!(refused.iter().all(|error| (error.align, error.len) == (64, 64)));
    let text = refused.iter().find(|error| error.address_align == 8).unwrap().to_string();
    assert!(
        text.ends_with(
            "aligned to 64 bytes, and the buffer to 8: make the pool's size a multiple of 64"
        ),
        "{text}"
    );
}

/// A pool in its own pages: all buffers are aligned to the largest power of two that divides their
/// size.
#[test]
fn sizes_align_buffers() {
    let p = Pair::<Rc>::new();
    for align in [8usize, 16, 64, 512, 4096] {
        let pool = p.pd.create_pool(5, 3 * align).unwrap();
        let bufs: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!(bufs.len(), 5);
        assert!(bufs.iter().all(|buf| buf.as_ptr().addr() % align == 0), "{align}");
    }
    let mut buf = p.pd.create_pool(1, 128).unwrap().take().unwrap();
    buf.set(&Line([5; 8])).unwrap();
    assert_eq!(buf.view::<Line>().unwrap(), &Line([5; 8]));
}

#[test]
fn values_in_open_regions() {
    let p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteReadWrite>(64).unwrap();
    for offset in [0, 8, 13, 48] {
        region.write_value(offset, &REQUEST).unwrap();
        assert_eq!(region.read_value::<Request>(offset).unwrap(), REQUEST, "{offset}");
    }
    region.write_value(0, &[1u16, 2, 3][..]).unwrap();
    assert_eq!(region.read_value::<[u16; 3]>(0).unwrap(), [1, 2, 3]);
    assert!(region.write_value(49, &REQUEST).is_err());
    assert!(region.read_value::<Line>(8).is_err());
}
