//! Regions that a peer and several threads access at once: every access is atomic and of one size.

use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use proverbs::memory::OpenBuf;
use proverbs::prelude::*;

use crate::support::*;

/// A peer writes a region piecemeal while one thread reads its cells, and another copies bytes in
/// and out.
///
/// Under Miri, atomics of two sizes never race on the same bytes of an open region.
/// Proves R6.12, R18.42.
#[test]
fn bytes_cells_and_a_peer_at_the_same_places() {
    fails_on!(Iwarp, "R24.4");
    let mut p = Pair::<Rc>::new();
    let region = p.pd.register::<RemoteAll>(43).unwrap();
    let rounds = if cfg!(miri) { 12 } else { 400 };
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..rounds {
                let cell = region.cell(8 * (i as usize % 5)).unwrap();
                cell.fetch_add(1, Relaxed);
                thread::yield_now();
            }
        });
        scope.spawn(|| {
            let mut bytes = [0; 43];
            for i in 0..rounds {
                region.read_at(0, &mut bytes).unwrap();
                region.write_at(i as usize % 40, &[i as u8; 3]).unwrap();
                thread::yield_now();
            }
        });
        for i in 0..rounds {
            let at = region.remote().slice(i as u64 % 30, 13).unwrap();
            p.a.post_send(wr::RdmaWrite::inline(&[i as u8; 13], at.write())).unwrap();
            p.a.post_send(wr::RdmaRead::new(poisoned(&p.pool), at.read())).unwrap();
            p.a.post_send(wr::FetchAndAdd::new(
                poisoned(&p.pool),
                region.remote().atomic(16).unwrap(),
                1,
            ))
            .unwrap();
            poll(&p.dev, &mut p.ca, 3);
        }
    });
}

/// An empty piece, a piece at the end, and offsets that wrap.
#[test]
fn the_edges_of_a_region() {
    fails_on!(Iwarp, "R24.4");
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let region = pd.register::<RemoteAll>(12).unwrap();
    region.write_at(12, &[]).unwrap();
    region.read_at(12, &mut []).unwrap();
    region.write_at(5, b"ends so").unwrap();
    let mut end = [0; 4];
    region.read_at(8, &mut end).unwrap();
    assert_eq!(&end, b"s so");
    assert_eq!(region.piece(12, 0).unwrap().len(), 0);
    for (offset, len) in [(12, 1), (13, 0), (usize::MAX, 0), (usize::MAX, 2), (1, usize::MAX)] {
        assert!(region.piece(offset, len).is_err(), "{offset} {len}");
        for before in [0, 4, 12] {
            let mut piece = region.piece(0, before).unwrap();
            assert!(piece.set_range(offset, len).is_err(), "{offset} {len}");
            assert_eq!(piece.len(), before);
            piece.set_range(12, 0).unwrap();
            piece.set_range(8, 4).unwrap();
        }
    }
    assert!(region.read_at(usize::MAX, &mut end).is_err());
    assert!(region.write_at(9, &end).is_err());
    for offset in [8, 5, 12, usize::MAX, usize::MAX - 7] {
        assert!(region.cell(offset).is_err(), "{offset}");
    }
    let slice = region.remote();
    assert!(slice.slice(u64::MAX, 2).is_err() && slice.atomic(u64::MAX).is_err());
    assert!(slice.atomic(5).is_err() && slice.slice(12, 0).is_ok());
}

/// Pieces that overlap each other and the memory they are read from. The device accesses one after
/// the other, and no reference exists whose bytes it could change.
#[test]
fn pieces_that_overlap() {
    fails_on!(Iwarp, "R24.4");
    profile! { OfPieces { entry: OpenBuf } }
    let mut p = Pair::<Rc, OfPieces>::new();
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let mut model: Vec<u8> = (0..64).collect();
    region.write_at(0, &model).unwrap();
    let from = region.remote().slice(8, 32).unwrap();
    for at in [0, 16, 9, 8] {
        p.a.post_send(wr::RdmaRead::new(region.piece(at, 32).unwrap(), from.read())).unwrap();
        model.copy_within(8..40, at);
    }
    // To its own place, and next to it.
    for at in [8, 11] {
        let to = region.remote().slice(at, 32).unwrap();
        p.a.post_send(wr::RdmaWrite::new(region.piece(8, 32).unwrap(), to.write())).unwrap();
        model.copy_within(8..40, at as usize);
    }
    let again = region.piece(8, 32).unwrap();
    poll(&p.dev, &mut p.ca, 6).into_iter().for_each(|done| drop(done.sent()));
    let mut bytes = [0; 64];
    region.read_at(0, &mut bytes).unwrap();
    if p.dev.kind == Kind::Loopback {
        // IBA does not define the order in which a device reads and writes the bytes of one
        // message.
        assert_eq!(bytes[..], model[..]);
    }
    assert!(region.destroy().is_err(), "a piece of it exists");
    drop(again);
}

/// A registered page is kept out of a child process as a whole, so it must contain no other heap
/// data.
///
/// The tail of a registered page holds no other heap data, which a child process would
/// miss.
#[test]
fn a_registered_page_contains_nothing_else() {
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let mut heap = Vec::new();
    let mut pages = Vec::new();
    for _ in 0..if cfg!(miri) { 4 } else { 200 } {
        let region = pd.register::<RemoteRead>(21).unwrap();
        let [a, b, c, d, e, f, g, h, ..] = region.remote().to_bytes();
        let start = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        assert_eq!((start % 4096, region.len()), (0, 21));
        pages.push((start, region));
        heap.extend((0..64).map(|size| vec![0u8; 16 + size]));
    }
    for block in &heap {
        let at = block.as_ptr().addr() as u64;
        let page = pages.iter().find(|(start, _)| (*start..start + 4096).contains(&at));
        assert!(page.is_none(), "{} bytes of the heap are in a registered page", block.len());
    }
}
