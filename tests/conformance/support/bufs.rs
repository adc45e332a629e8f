//! Buffers with known content in every byte.

use proverbs::{Buf, Pool};

const POISON: u8 = 0xa5;

/// A buffer filled with poison, for a device to fill.
#[track_caller]
pub fn poisoned<C, M>(pool: &Pool<C, M>) -> Buf<C> {
    let mut buf = pool.take().expect("the pool has a buffer left");
    buf.copy_from(&[]).unwrap();
    buf.set_len(usize::MAX);
    buf[..].fill(POISON);
    buf
}

/// A buffer with exactly these `bytes`, and poison after them.
#[track_caller]
pub fn filled<C, M>(pool: &Pool<C, M>, bytes: &[u8]) -> Buf<C> {
    let mut buf = poisoned(pool);
    buf.copy_from(bytes).expect("a buffer of the pool holds the bytes");
    buf
}

/// `len` bytes that depend on their position and on `seed`.
pub fn numbered(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + seed * 31 + i / 256) as u8).collect()
}

/// Checks that the buffer has the length and content of `bytes`, and poison after them.
#[track_caller]
pub fn holds<C>(buf: Buf<C>, bytes: &[u8]) -> Buf<C> {
    assert_eq!(buf.len(), bytes.len(), "length");
    assert!(buf[..] == *bytes, "content: {:x?} is not {bytes:x?}", &buf[..]);
    tail_is_poison(buf, bytes.len())
}

/// Checks that nothing was written to the buffer.
#[track_caller]
pub fn untouched<C>(buf: Buf<C>) -> Buf<C> {
    tail_is_poison(buf, 0)
}

#[track_caller]
fn tail_is_poison<C>(mut buf: Buf<C>, from: usize) -> Buf<C> {
    let len = buf.len();
    buf.set_len(usize::MAX);
    // Compared as a whole, which is fast under Miri; the position is for the message.
    if buf[from..] != vec![POISON; buf.len() - from] {
        let at = buf[from..].iter().position(|&byte| byte != POISON);
        panic!("byte {at:?} after the message of {from} bytes was written");
    }
    buf.set_len(len);
    buf
}
