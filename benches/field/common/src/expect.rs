//! What the stub must have been given.

use crate::{Api, LEN, REMOTE_ADDR, REMOTE_KEY, Work};

/// A word of the image: one value, or any.
type Word = Option<u64>;

const POST_SEND: Word = Some(1);
const POST_RECV: Word = Some(2);
const RDMA_WRITE: Word = Some(0);
const SEND: Word = Some(2);
const ANY: Word = None;
/// One element of the right length, at an address and with an lkey that each program has its own
/// of.
const ELEMENT: [Word; 4] = [Some(1), Some(LEN as u64), ANY, ANY];

/// Compares what was posted, and what is left to be polled.
pub fn check<A: Api>(work: Work, image: &[u64], pending: u32) -> Result<(), String> {
    let sends = A::SENDS;
    let (posted, left) = match work {
        Work::Post => (post(sends, 1), 1),
        Work::Chain4 => (post(sends, 4), A::CHAIN_COMPLETIONS),
        Work::Recv => ([&[POST_RECV][..], &ELEMENT].concat(), 1),
        Work::Poll1 | Work::Cycle => (post(sends, 1), 0),
        Work::Poll16 => (post(sends, 1).repeat(16), 0),
    };
    let same = |(word, expected): (&u64, &Word)| expected.is_none_or(|expected| expected == *word);
    if image.len() != posted.len() || !image.iter().zip(&posted).all(same) {
        return Err(format!("{work:?} posted {image:?}, and should have posted {posted:?}"));
    }
    if pending != left {
        return Err(format!("{work:?} left {pending} completions, and should have left {left}"));
    }
    Ok(())
}

/// One post of `n` work requests. The flags differ: queue pairs complete all sends, or those
/// marked.
fn post(sends: bool, n: usize) -> Vec<Word> {
    let head = match sends {
        true => vec![SEND, ANY],
        false => vec![RDMA_WRITE, ANY, Some(REMOTE_ADDR), Some(REMOTE_KEY.into())],
    };
    [vec![POST_SEND], [head, ELEMENT.to_vec()].concat().repeat(n)].concat()
}
