//! Structs as messages: a request is built in the buffer that is sent, and read from the buffer
//! that received it. No byte is copied, and each reply is sent from the buffer of its request.
//!
//! Both ends are in this process, on the loopback device. Run it with `--features zerocopy`.

#![forbid(unsafe_code)]

use std::error::Error;

use proverbs::completion::{Received, Sent};
use proverbs::loopback;
use proverbs::prelude::*;
use zerocopy::byteorder::network_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A request. The numbers are in network byte order, so any machine may be at the other end.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Request {
    key: U64,
    count: U32,
    flags: U32,
}

/// The reply: four numbers starting with the key, and their sum.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Answer {
    key: U64,
    sum: U64,
    values: [U64; 4],
}

fn main() -> Result<(), Box<dyn Error>> {
    // `pair` is two connected queue pairs and a pool of buffers of 256 bytes.
    let loopback::Pair { a: mut client, b: mut server, mut cq, pool, .. } = loopback::pair()?;
    let buffer = || pool.take().ok_or("all buffers are in use");
    for key in [10, 20, 30] {
        server.post_recv(wr::Recv::new(buffer()?))?;
        client.post_recv(wr::Recv::new(buffer()?))?;

        let mut buf = buffer()?;
        buf.set(&Request { key: key.into(), count: 4.into(), flags: 0.into() })?;
        client.post_send(wr::Send::new(buf))?;

        let mut answered = false;
        while !answered {
            for completion in cq.poll()? {
                match completion.outcome() {
                    // The longer one is the reply.
                    Outcome::Received(Received { entry: Some(buf), .. }) => match buf.view() {
                        Ok(request) => {
                            let answer = answer(request);
                            server.post_send(wr::Send::new(made(buf, &answer)?))?;
                        }
                        Err(_) => {
                            let answer: &Answer = buf.view()?;
                            println!("{}: the sum is {}", answer.key, answer.sum);
                            assert_eq!(answer.sum.get(), 4 * key + 6);
                            answered = true;
                        }
                    },
                    Outcome::Sent(Sent { .. }) => {}
                    Outcome::Failed(failed) => return Err(failed.error.into()),
                    _ => return Err("an unexpected completion".into()),
                }
            }
        }
    }
    Ok(())
}

fn answer(request: &Request) -> Answer {
    let key = request.key.get();
    let count = request.count.get().min(4) as u64;
    let values = std::array::from_fn(|i| key + i as u64);
    let sum = values[..count as usize].iter().sum::<u64>();
    Answer { key: request.key, sum: sum.into(), values: values.map(U64::from) }
}

/// Writes this reply to the buffer.
fn made(mut buf: Buf, answer: &Answer) -> Result<Buf, Box<dyn Error>> {
    buf.set(answer)?;
    Ok(buf)
}
