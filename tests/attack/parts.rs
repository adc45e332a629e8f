//! Arenas and parts of buffers: joins of unrelated parts, drop orders, threads, and rejections.

use std::collections::VecDeque;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::channel;
use std::thread;

use proverbs::memory::SplitError;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::support::*;

/// A refused join leaves both unchanged.
#[track_caller]
fn are_strangers(one: &mut Buf, two: Buf) -> Buf {
    let before = (one.as_ptr(), one.len(), one.capacity(), two.as_ptr(), two.len(), two.capacity());
    let next = one.join(two).unwrap_err().into_object();
    let after =
        (one.as_ptr(), one.len(), one.capacity(), next.as_ptr(), next.len(), next.capacity());
    assert_eq!(before, after);
    next
}

/// Only two parts are left of an arena. Joined, they are the single last one.
#[test]
fn parts_that_outlive_their_arena_are_counted_when_they_join() {
    let p = Pair::<Rc>::new();
    let context = std::rc::Rc::new(());
    let arena = p.pd.arena(4).contexts(|_| context.clone()).create(1024).unwrap();
    let mut one = arena.take(128).unwrap();
    let two = one.split_off(64).unwrap();
    drop(arena);
    assert_eq!(std::rc::Rc::strong_count(&context), 5);
    one.join(two).unwrap();
    let three = one.split_off(32).unwrap();
    one.join(three).unwrap();
    drop(one);
    assert_eq!(std::rc::Rc::strong_count(&context), 1);
}

/// Proves R18.32.
#[test]
fn only_neighbours_are_joined() {
    let p = Pair::<Rc>::new();
    let mut memory = vec![0u64; 64];
    memory[0] = 1;
    let [arena, other] = [(); 2].map(|()| p.pd.create_arena(1024, 8).unwrap());
    let in_vector = p.pd.arena(8).create_in(memory).unwrap();
    let mut one = arena.take(192).unwrap();
    let mut two = one.split_off(64).unwrap();
    let three = two.split_off(64).unwrap();
    // Not the part behind it: the part before it, one further on, and parts of other buffers.
    two = are_strangers(&mut two.split_off(32).unwrap(), two);
    one = are_strangers(&mut two, one);
    let three = are_strangers(&mut one, three);
    let strangers =
        [other.take(64).unwrap(), in_vector.take(64).unwrap(), p.pool.take().unwrap(), three];
    for stranger in strangers {
        drop(are_strangers(&mut one, stranger));
    }
    let mut of_pool = p.pool.take().unwrap();
    let behind = p.pool.take().unwrap();
    drop(are_strangers(&mut of_pool, behind));
    assert_eq!(of_pool.split_off(8).unwrap_err(), SplitError::OfPool);
    for at in [0, 64, 65, usize::MAX] {
        assert_eq!(one.split_off(at).unwrap_err(), SplitError::NoBytes { at, capacity: 64 });
    }
    // The memory behind `one` has another owner by now.
    drop(two);
    assert_eq!(arena.longest(), 960); // merges what was dropped
    let mut next = arena.take(192).unwrap();
    assert_eq!(next.as_ptr(), one.as_ptr().wrapping_add(64));
    next[..].fill(5);
    one.join(next).unwrap();
    assert_eq!((one.len(), one.capacity(), &one[64..]), (256, 256, &[5; 192][..]));
}

/// Narrowed parts are split and joined in place, and each byte belongs to one buffer.
///
/// The parts of a split buffer never share bytes.
/// Proves R18.31.
#[test]
fn narrowed_parts_overlap_nothing() {
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1024, 8).unwrap();
    let mut one = arena.take(100).unwrap();
    let at = one.as_ptr();
    one.narrow(10..90).unwrap();
    one.set_len(20);
    let mut two = one.split_off(30).unwrap();
    assert_eq!((one.len(), one.capacity()), (20, 30));
    assert_eq!((two.len(), two.capacity(), two.as_ptr()), (0, 50, at.wrapping_add(40)));
    one.widen();
    assert_eq!((one.as_ptr(), one.capacity()), (at, 40));
    two.set_len(50);
    two.narrow(1..2).unwrap();
    two[0] = 77;
    one.narrow((Bound::Excluded(38), Bound::Unbounded)).unwrap();
    one[0] = 76;
    one.join(two).unwrap();
    assert_eq!((&one[..2], one.len(), one.capacity()), (&[76, one[1]][..], 3, 3));
    assert_eq!(one[2], 77);
    one.widen();
    assert_eq!((one.as_ptr(), one.capacity(), one[39], one[41]), (at, 128, 76, 77));
    drop(one);
    assert_eq!((arena.longest(), arena.spare()), (1024, 8));
}

/// A part keeps its memory, its region and its domain, in any drop order.
/// Proves R18.32.
#[test]
fn parts_outlive_their_arena() {
    let Pair { dev, pd, .. } = Pair::<Rc>::new();
    let arena = pd.arena(4).contexts(|index| vec![index]).create(1024).unwrap();
    let mut one = arena.take(256).unwrap();
    drop((arena, pd, dev));
    let mut two = one.split_off(100).unwrap();
    let three = two.split_off(100).unwrap();
    *two.context_mut() = vec![17];
    one[..].fill(1);
    two[..].fill(2);
    let three = thread::spawn(move || {
        let mut three = three;
        three[..].fill(3);
        three.narrow(5..).unwrap();
        three
    })
    .join()
    .unwrap();
    drop(one);
    two.join(three).unwrap();
    assert_eq!((two[..100].to_vec(), &two[105..]), (vec![2; 100], &[3; 51][..]));
    assert_eq!(two.context(), &[17]);
}

/// The eight bytes of an atomic would exceed a buffer that was narrowed to fewer. However the post
/// is rejected, the returned buffer has no more bytes than before.
///
/// An atomic into a buffer narrowed below 8 bytes is rejected.
/// Proves R18.31.
#[test]
fn a_buffer_too_short_for_an_atomic() {
    fails_on!(Iwarp, "R24.4");
    profile! { Lists { entry: BufList, max_send_sge: 2 } }
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(1024, 8).unwrap();
    let region = p.pd.register::<RemoteAll>(64).unwrap();
    let cell = region.remote().atomic(0).unwrap();
    let mut rest = arena.take(64).unwrap();
    let mut short = arena.take(64).unwrap();
    let mut behind = short.split_off(3).unwrap();
    behind[..].fill(9);
    let refused = PostErrorKind::AtomicExceedsBuffer { max: 3 };
    let is_short = |buf: Buf| {
        assert_eq!((buf.len(), buf.capacity()), (3, 3));
        buf
    };
    // Pushed, with extend, and in a list that is dropped.
    let mut slots = SendSlots::<4>::new();
    let mut list = p.a.send_list(&mut slots);
    let error = list.push(wr::FetchAndAdd::new(short, cell, 1)).unwrap_err();
    assert_eq!(error.kind(), refused);
    short = is_short(error.into_rejected().next().unwrap());
    let error = list.extend([wr::FetchAndAdd::new(short, cell, 1)]).unwrap_err();
    short = is_short(error.into_rejected().next().unwrap());
    drop(list);
    // In a chain, after a valid one, which is not posted either.
    let fine = wr::FetchAndAdd::new(rest, cell, 1);
    let error = post_send!(p.a, [fine, wr::FetchAndAdd::new(short, cell, 1)]).unwrap_err();
    assert_eq!(error.kind(), refused);
    let mut back = error.into_rejected();
    rest = back.next().unwrap();
    short = is_short(back.next().unwrap());
    // In a chain that is interrupted: it returns to the arena, and is whole.
    let stop = || -> wr::WorkRequest<wr::Send, Buf> { resume_unwind(Box::new("on purpose")) };
    let post = || drop(post_send!(p.a, [wr::FetchAndAdd::new(short, cell, 1), stop()]));
    assert!(catch_unwind(AssertUnwindSafe(post)).is_err());
    let again = arena.take(890).unwrap();
    assert_eq!((again.len(), again.capacity()), (890, 896));
    drop(again);
    // A pool's.
    let mut buf = p.pool.take().unwrap();
    buf.narrow(250..).unwrap();
    let error = p.a.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap_err();
    let buf = error.into_rejected().next().unwrap();
    assert_eq!((buf.len(), buf.capacity()), (6, 6));
    drop(buf);
    assert!(p.pool.take().is_some_and(|buf| buf.len() == 256));
    // As an entry of another type.
    let mut q = Pair::<Rc, Lists>::new();
    let cell = q.pd.register::<RemoteAll>(8).unwrap().remote().atomic(0).unwrap();
    let mut buf = q.pool.take().unwrap();
    buf.narrow(..1).unwrap();
    let error = q.a.post_send(wr::FetchAndAdd::new(buf, cell, 1)).unwrap_err();
    let mut list = error.into_rejected().next().unwrap();
    assert_eq!(list.pop_front().map(|buf| (buf.len(), buf.capacity())), Some((1, 1)));
    assert!(behind.iter().all(|&byte| byte == 9) && region.cell(0).unwrap().as_ptr().is_aligned());
    assert_eq!(p.a.sends_outstanding(), 0);
    drop(rest);
}

/// Parts share words. The device owns one, and the program owns two and holds slices of them. The
/// device touches only its own bytes.
///
/// Under Miri, the loopback device touches only the bytes of its own part of a split
/// buffer.
#[test]
fn slices_next_to_a_part_that_the_device_has() {
    let mut p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(256, 8).unwrap();
    let mut before = arena.take(64).unwrap();
    let mut part = before.split_off(3).unwrap();
    let mut behind = part.split_off(7).unwrap();
    let mut message = arena.take(7).unwrap();
    message.copy_from(b"in here").unwrap();
    let (left, right) = (&mut before[..], &mut behind[..]);
    left.fill(1);
    right.fill(2);
    thread::scope(|scope| {
        // The device writes the part while a thread writes next to it, and while a slice is held.
        p.b.post_recv(wr::Recv::new(part)).unwrap();
        let beside = scope.spawn(|| left.fill(3));
        p.a.post_send(wr::Send::new(message)).unwrap();
        let message = poll(&p.dev, &mut p.ca, 1).remove(0).sent().entry.unwrap();
        let part = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
        beside.join().unwrap();
        right[0] += 2;
        assert_eq!(&part[..], b"in here");
        // And reads it.
        p.b.post_recv(wr::Recv::new(message)).unwrap();
        let beside = scope.spawn(|| right.fill(5));
        p.a.post_send(wr::Send::new(part)).unwrap();
        let message = poll(&p.dev, &mut p.cb, 1).remove(0).received().entry.unwrap();
        beside.join().unwrap();
        assert_eq!(&message[..], b"in here");
    });
    assert_eq!((&before[..], behind[0], behind[53]), (&[3; 3][..], 5, 5));
}

/// A buffer filled with a byte that identifies its owner.
struct Stamped(Buf, u8);

impl Stamped {
    fn new(mut buf: Buf, stamp: u8) -> Stamped {
        buf.widen();
        buf[..].fill(stamp);
        Stamped(buf, stamp)
    }

    #[track_caller]
    fn check(self) -> Buf {
        assert!(self.0.iter().all(|&byte| byte == self.1), "another thread wrote here");
        self.0
    }
}

/// Threads take, split, join and pass on parts, and each finds its bytes unchanged.
/// Proves R18.32.
#[test]
fn each_byte_belongs_to_one_thread() {
    const THREADS: u8 = 4;
    // (Miri is slow for each byte, and finds the same with small parts.)
    let (rounds, len, most) = if cfg!(miri) { (30, 1 << 11, 190) } else { (3000, 1 << 14, 1500) };
    let dev = Device::open();
    let pd = dev.ctx.alloc_pd().unwrap();
    let arena = pd.create_arena(len, 40).unwrap();
    let (give, get): (Vec<_>, VecDeque<_>) = (0..THREADS).map(|_| channel::<Stamped>()).unzip();
    thread::scope(|scope| {
        for (number, inbox) in get.into_iter().enumerate() {
            let seed = 0x5eed + number as u64;
            println!("seed {seed}");
            let (arena, next) = (arena.clone(), give[(number + 1) % THREADS as usize].clone());
            scope.spawn(move || {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let mut below = move |bound: usize| random.next_u64() as usize % bound;
                let mut held: Vec<Stamped> = Vec::new();
                for round in 0..rounds {
                    let stamp = (round * THREADS as usize + number) as u8;
                    let any = below(held.len().max(1));
                    match below(6) {
                        0..2 => {
                            let buf = arena.take(below(most));
                            held.extend(buf.map(|buf| Stamped::new(buf, stamp)));
                        }
                        2 if !held.is_empty() => {
                            let mut one = held.swap_remove(any).check();
                            let at = 1 + below(one.capacity());
                            if let Ok(two) = one.split_off(at) {
                                held.push(Stamped::new(two, stamp));
                            }
                            held.push(Stamped::new(one, stamp.wrapping_add(1)));
                        }
                        3 if held.len() > 1 => {
                            let mut one = held.swap_remove(any).check();
                            let two = held.swap_remove(below(held.len())).check();
                            let back = one.join(two).err().map(Refused::into_object);
                            held.extend(back.map(|two| Stamped::new(two, stamp)));
                            held.push(Stamped::new(one, stamp));
                        }
                        4 if !held.is_empty() => {
                            let _ = next.send(held.swap_remove(any));
                        }
                        _ => {
                            inbox.try_iter().for_each(|stamped| drop(stamped.check()));
                            held.pop().map(Stamped::check);
                        }
                    }
                }
                held.into_iter().for_each(|stamped| drop(stamped.check()));
            });
        }
        drop(give);
    });
    assert_eq!((arena.longest(), arena.spare()), (len, 40));
    arena.destroy().unwrap();
}

/// Proves R18.32.
#[test]
fn memory_of_another_part_is_not_handed_out_again() {
    let p = Pair::<Rc>::new();
    let arena = p.pd.create_arena(256, 4).unwrap();
    let mut one = arena.take(256).unwrap();
    let out_of_reach = one.split_off(64).unwrap();
    drop(one);
    assert_eq!((arena.available(), arena.longest()), (64, 64));
    assert!(arena.take(65).is_none());
    let arena = arena.destroy().unwrap_err().into_object();
    drop(out_of_reach);
    arena.destroy().unwrap();
}

/// A region of 1 GiB is shared among many queue pairs and threads, with messages of any length. The
/// next thread checks the messages that arrive, and drops them. (Pages that are never touched cost
/// nothing. A device that pins them gets fewer. Miri is slow for each part and each byte, and gets
/// 64 KiB among as few as can meet.)
/// Proves R18.32.
#[test]
fn a_gibibyte_shared_by_queue_pairs_and_threads() {
    fails_on!(Iwarp, "R24.5");
    let dev = Device::open();
    let (size, most, rounds) = match dev.kind {
        _ if cfg!(miri) => (1 << 16, 1 << 8, 2),
        Kind::Loopback => (1 << 30, 1 << 15, 12),
        _ => (1 << 22, 1 << 10, 2),
    };
    let (threads, pairs, parts) = if cfg!(miri) { (2, 2, 32) } else { (8, 8, 4096) };
    let memory = proverbs::memory::MapOptions::new().anonymous(size).unwrap();
    let pd = dev.ctx.alloc_pd().unwrap();
    let arena = pd.arena(parts).create_in(memory).unwrap();
    assert_eq!((arena.len(), arena.longest()), (size, size));
    let (give, get): (Vec<_>, VecDeque<_>) = (0..threads).map(|_| channel::<Stamped>()).unzip();
    thread::scope(|scope| {
        for (number, inbox) in get.into_iter().enumerate() {
            let seed = 0x91b + number as u64;
            println!("seed {seed}");
            let (arena, pd, dev) = (arena.clone(), &pd, &dev);
            let next = give[(number + 1) % threads].clone();
            scope.spawn(move || {
                let mut random = Pcg64Mcg::seed_from_u64(seed);
                let mut below = move |bound: usize| random.next_u64() as usize % bound;
                let wish = Wish::new();
                let mut cq = dev.ctx.create_cq(40 * pairs as u32).unwrap();
                let mut pairs: Vec<_> = (0..pairs)
                    .map(|_| {
                        let qp = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth);
                        let (a, b) = (qp().unwrap(), qp().unwrap());
                        let (na, nb) = (a.qp_num(), b.qp_num());
                        (Rc::up(a, dev, nb, &wish), Rc::up(b, dev, na, &wish))
                    })
                    .collect();
                for round in 0..rounds {
                    // A long part, of which little is touched.
                    let mut long = arena.take(size / 64).unwrap();
                    let (last, stamp) = (long.len() - 1, (16 * round + number) as u8);
                    (long[0], long[last]) = (stamp, stamp);
                    for (a, b) in &mut pairs {
                        let len = 1 + below(most);
                        let mut message = arena.take(len).unwrap();
                        message[..].fill(stamp);
                        b.post_recv(wr::Recv::new(arena.take(len).unwrap())).unwrap();
                        a.post_send(wr::Send::new(message)).unwrap();
                    }
                    for done in poll(dev, &mut cq, 2 * pairs.len()) {
                        if let Done::Received(message) = done {
                            let _ = next.send(Stamped(message.entry.unwrap(), stamp));
                        }
                    }
                    inbox.try_iter().for_each(|stamped| drop(stamped.check()));
                    assert_eq!((long[0], long[last]), (stamp, stamp));
                }
                drop(next);
                inbox.iter().for_each(|stamped| drop(stamped.check()));
            });
        }
        drop(give);
    });
    assert_eq!((arena.available(), arena.longest(), arena.spare()), (size, size, parts));
    drop(arena.destroy().unwrap());
}
