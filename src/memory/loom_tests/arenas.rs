//! Each byte of an arena belongs to one buffer at a time, whichever threads take, split, join and
//! drop buffers. Dropped bytes can be taken again.

use std::sync::Arc as Plain;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use crate::loom_tests::pd;
use crate::memory::{Arena, Buf};

/// The lines of the arena's memory, 64 bytes each. Each holder of a buffer accesses its lines.
struct Lines {
    base: usize,
    all: Vec<UnsafeCell<u32>>,
}

// SAFETY: only the holder of its buffer accesses a line; loom checks this.
unsafe impl Sync for Lines {}
// SAFETY: the lines are numbers, which are not bound to a thread.
unsafe impl Send for Lines {}

impl Lines {
    /// Writes to every line of a buffer.
    fn touch<C>(&self, buf: &Buf<C>) {
        let (start, len) = (buf.as_ptr().addr() - self.base, buf.capacity());
        assert!(start % 64 == 0 && len != 0 && len % 64 == 0);
        for line in &self.all[start / 64..(start + len) / 64] {
            // SAFETY: the line belongs to a buffer that the caller holds. Otherwise loom fails.
            line.with_mut(|line| unsafe { *line += 1 });
        }
    }
}

/// An arena of `lines` lines of memory, with `headers` headers.
fn arena(lines: usize, headers: usize) -> (Arena<()>, Arc<Lines>) {
    arena_with(lines, headers, ())
}

/// The same with a context for each header.
fn arena_with<C: Clone>(lines: usize, headers: usize, context: C) -> (Arena<C>, Arc<Lines>) {
    let arena = pd().arena(headers).contexts(|_| context.clone()).create(lines * 64).unwrap();
    let base = arena.registered().at(0).addr();
    (arena, Arc::new(Lines { base, all: (0..lines).map(|_| UnsafeCell::new(0)).collect() }))
}

/// Two threads try to take a buffer that only one can get, and return it.
#[test]
fn bytes_have_one_holder() {
    loom::model(|| {
        let (arena, lines) = arena(3, 2);
        let work = |arena: &Arena<()>, lines: &Lines, len| {
            let buf = arena.take(len);
            buf.iter().for_each(|buf| lines.touch(buf));
        };
        let other = {
            let (arena, lines) = (arena.clone(), lines.clone());
            thread::spawn(move || {
                work(&arena, &lines, 128);
                work(&arena, &lines, 192);
            })
        };
        work(&arena, &lines, 100);
        other.join().unwrap();
        assert_eq!(arena.available(), 192);
        let all = arena.take(192).expect("what was dropped is one block again");
        lines.touch(&all);
    });
}

/// A buffer is split. Two threads return its parts, while the first one takes again.
#[test]
fn parts_go_home_by_themselves() {
    loom::model(|| {
        let (arena, lines) = arena(2, 3);
        let mut one = arena.take(128).unwrap();
        let two = one.split_off(64).unwrap();
        let other = {
            let lines = lines.clone();
            thread::spawn(move || {
                lines.touch(&two);
                drop(two);
            })
        };
        lines.touch(&one);
        drop(one);
        if let Some(buf) = arena.take(64) {
            lines.touch(&buf);
        }
        other.join().unwrap();
        assert_eq!((arena.available(), arena.spare()), (128, 3));
        lines.touch(&arena.take(128).unwrap());
    });
}

/// One thread joins two neighbours, while another takes and returns the bytes after them.
#[test]
fn joined_buffers_are_one() {
    loom::model(|| {
        let (arena, lines) = arena(3, 3);
        let mut whole = arena.take(64).unwrap();
        let next = arena.take(64).unwrap();
        let other = {
            let (arena, lines) = (arena.clone(), lines.clone());
            thread::spawn(move || {
                let buf = arena.take(64);
                buf.iter().for_each(|buf| lines.touch(buf));
            })
        };
        whole.join(next).map_err(drop).expect("they are neighbours");
        assert_eq!(whole.capacity(), 128);
        lines.touch(&whole);
        let next = arena.take(64);
        next.iter().for_each(|buf| lines.touch(buf));
        drop(whole);
        other.join().unwrap();
        drop(next);
        assert_eq!((arena.available(), arena.spare()), (192, 3));
    });
}

/// The arena's own handles are dropped first. Its memory stays until the last buffer is dropped.
#[test]
fn an_arena_goes_with_its_last_part() {
    loom::model(|| {
        let there = Plain::new(());
        let (arena, lines) = arena_with(2, 2, there.clone());
        let mut one = arena.take(128).unwrap();
        drop(arena);
        let two = one.split_off(64).unwrap();
        let other = {
            let (lines, there) = (lines.clone(), there.clone());
            thread::spawn(move || {
                assert!(Plain::strong_count(&there) > 1);
                lines.touch(&two);
                drop(two);
            })
        };
        lines.touch(&one);
        drop(one);
        other.join().unwrap();
        assert_eq!(Plain::strong_count(&there), 1);
    });
}
