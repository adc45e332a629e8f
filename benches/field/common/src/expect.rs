//! What the stub must have been given.

use std::collections::HashMap;

use crate::{Api, LEN, PAYLOAD, REMOTE_ADDR, REMOTE_KEY, ROUNDS, Work, length};

/// A word of the image.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Word {
    Is(u64),
    Any,
    /// The address of a buffer: each has one, which no other has.
    Buffer(usize),
}

use Word::{Any, Buffer, Is};

const POST_SEND: Word = Is(1);
const POST_RECV: Word = Is(2);
const RDMA_WRITE: Word = Is(0);
const SEND: Word = Is(2);
const SIGNALED: u64 = 2;
const INLINE: u64 = 8;

/// Compares what was posted, and what is left to be polled.
pub fn check<A: Api>(work: Work, image: &[u64], pending: u32) -> Result<(), String> {
    let one = post::<A>(&[(Any, LEN, Any)]);
    let (posted, left) = match work {
        Work::Post => (one, 1),
        Work::Chain4 => (post::<A>(&[(Any, LEN, Any); 4]), A::CHAIN_COMPLETIONS),
        Work::Recv => (receive(Any), 1),
        Work::Poll1 | Work::Cycle => (one, 0),
        Work::Poll16 => (one.repeat(16), 0),
        Work::Loop => (post::<A>(&[(Any, LEN, Buffer(0))]).repeat(ROUNDS), 0),
        Work::Length => {
            let rounds = 0..ROUNDS;
            (rounds.flat_map(|i| post::<A>(&[(Any, length(i), Buffer(0))])).collect(), 0)
        }
        Work::Chain => {
            let flags = [0, 0, 0, SIGNALED];
            let wrs = [0, 1, 2, 3].map(|i| (Is(flags[i]), LEN, Buffer(i)));
            (post::<A>(&wrs).repeat(ROUNDS), 0)
        }
        Work::Inline => (inline::<A>().repeat(ROUNDS), 0),
        Work::Echo => (echo(1), 1),
        Work::Echo8 => (echo(8), 8),
    };
    compare(image, &posted).map_err(|why| format!("{work:?}: {why}"))?;
    if pending != left {
        return Err(format!("{work:?} left {pending} completions, and should have left {left}"));
    }
    Ok(())
}

fn compare(image: &[u64], posted: &[Word]) -> Result<(), String> {
    let mut addresses = HashMap::new();
    let mut same = |(word, expected): (&u64, &Word)| match *expected {
        Is(value) => *word == value,
        Any => true,
        Buffer(i) => *addresses.entry(i).or_insert(*word) == *word,
    };
    if let Some(i) = image.iter().zip(posted).position(|pair| !same(pair)) {
        let (is, expected) = (image[i], posted[i]);
        return Err(format!("word {i} of what was posted is {is}, and should be {expected:?}"));
    }
    if image.len() != posted.len() {
        let (is, expected) = (image.len(), posted.len());
        return Err(format!("posted {is} words, and should have posted {expected}"));
    }
    let mut all: Vec<u64> = addresses.into_values().collect();
    all.sort_unstable();
    if all.windows(2).any(|two| two[0] == two[1]) {
        return Err("two buffers are one".to_owned());
    }
    Ok(())
}

/// One element of this length; each program has an lkey of its own.
fn element(length: usize, buffer: Word) -> [Word; 4] {
    [Is(1), Is(length as u64), buffer, Any]
}

/// One post of work requests: flags, length, and buffer of each. Flags differ where queue pairs
/// may complete all sends, or those marked.
fn post<A: Api>(wrs: &[(Word, usize, Word)]) -> Vec<Word> {
    let mut all = vec![POST_SEND];
    for &(flags, length, buffer) in wrs {
        if A::SENDS {
            all.extend([SEND, flags]);
        } else {
            all.extend([RDMA_WRITE, flags, Is(REMOTE_ADDR), Is(REMOTE_KEY.into())]);
        }
        all.extend(element(length, buffer));
    }
    all
}

fn receive(buffer: Word) -> Vec<Word> {
    [&[POST_RECV][..], &element(LEN, buffer)].concat()
}

fn inline<A: Api>() -> Vec<Word> {
    let flags = if A::SIGNAL_ALL { INLINE } else { INLINE | SIGNALED };
    let words = PAYLOAD.chunks_exact(8).map(|word| word.try_into().expect("8"));
    let words = words.map(|word| Is(u64::from_ne_bytes(word)));
    let head = [POST_SEND, SEND, Is(flags), Is(1), Is(PAYLOAD.len() as u64)];
    head.into_iter().chain(words).collect()
}

/// `n` receives; then each is answered from its buffer, each of these receives again, and so on.
fn echo(n: usize) -> Vec<Word> {
    let answer = |i| [&[POST_SEND, SEND, Any][..], &element(LEN, Buffer(i))].concat();
    let pass = |is_answer| move |i| if is_answer { answer(i) } else { receive(Buffer(i)) };
    let passes = (0..=ROUNDS).flat_map(|round| (0..n).map(pass(round % 2 == 1)));
    passes.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_the_same_each_time_and_no_other() {
        let posted = [POST_RECV, Buffer(0), Buffer(1), Buffer(0), Any];
        assert!(compare(&[2, 70, 80, 70, 5], &posted).is_ok());
        assert!(compare(&[2, 70, 80, 80, 5], &posted).is_err());
        assert!(compare(&[2, 70, 70, 70, 5], &posted).is_err());
        assert!(compare(&[1, 70, 80, 70, 5], &posted).is_err());
        assert!(compare(&[2, 70, 80, 70], &posted).is_err());
    }
}
