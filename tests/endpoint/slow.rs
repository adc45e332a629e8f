//! Exchanges over real sockets with peers that are slow or hostile: each ends in time.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;

use super::*;

/// A peer that sends `bytes`, with a `pause` before each, until the connection is closed.
fn dripping(bytes: Vec<u8>, pause: Duration) -> UnixStream {
    let (here, mut there) = UnixStream::pair().unwrap();
    thread::spawn(move || {
        for byte in bytes {
            thread::sleep(pause);
            if there.write_all(&[byte]).is_err() {
                return;
            }
        }
        // Silent from here on, but still connected.
        let _ = there.read(&mut [0; 1]);
        thread::sleep(long());
    });
    here
}

const SHORT: Duration = Duration::from_millis(100);

/// The error of an exchange with this peer. It must come in time, which on a busy machine may be a
/// few seconds late.
fn fails(here: UnixStream, mine: &Endpoint) -> ExchangeError {
    fails_within(SHORT, here, mine)
}

fn fails_within(time: Duration, mut here: UnixStream, mine: &Endpoint) -> ExchangeError {
    let (mine, (tell, told)) = (mine.clone(), mpsc::channel());
    thread::spawn(move || {
        let error = exchange(&mut here, &mine, time).unwrap_err();
        assert_eq!((here.read_timeout().unwrap(), here.write_timeout().unwrap()), (None, None));
        tell.send(error)
    });
    told.recv_timeout(time + long() / 4).expect("the exchange ends, and not with a panic")
}

fn came(error: &ExchangeError) -> usize {
    let ExchangeError::TimedOut { received, .. } = error else { panic!("{error}") };
    assert_eq!(
        error.to_string().split(" of ").next(),
        Some(&*format!("received {}", received.len()))
    );
    received.len()
}

/// A peer that sends one byte at a time cannot extend an exchange beyond its deadline.
/// Ends: exchange.
#[test]
fn a_peer_that_drips_bytes() {
    // At this rate the endpoint would take 24 seconds.
    let bytes = lengthy(1).to_bytes();
    // If the peer does not run during the whole time, no byte arrives.
    let came = [SHORT, 4 * SHORT, 16 * SHORT, 64 * SHORT].iter().any(|&time| {
        let peer = dripping(bytes.clone(), Duration::from_millis(1));
        let error = fails_within(time, peer, &plain());
        let came = came(&error);
        assert!(matches!(error, ExchangeError::TimedOut { after, .. } if after == time));
        assert_eq!(error.received(), &bytes[..came]);
        came > 0
    });
    assert!(came);
}

/// Ends: exchange.
#[test]
fn a_peer_that_stops() {
    for stop in [0, 1, 12, 55] {
        let bytes = plain().to_bytes()[..stop].to_vec();
        let (here, mut there) = UnixStream::pair().unwrap();
        there.write_all(&bytes).unwrap();
        // A thread reads all the while, so that writing does not block.
        thread::spawn(move || while there.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {});
        let error = fails_within(5 * SHORT, here, &lengthy(2));
        assert_eq!((came(&error), error.received()), (stop, &bytes[..]));
    }
}

#[test]
fn a_peer_that_sends_garbage_slowly() {
    let error = fails_within(long(), dripping(vec![b'x'; 100], Duration::from_millis(2)), &plain());
    assert!(matches!(error, ExchangeError::Malformed { .. }), "{error}");
    // Or bytes that begin like an endpoint.
    let mut bytes = plain().to_bytes();
    bytes[13..].fill(0xff);
    let error = fails(dripping(bytes, Duration::from_millis(50)), &plain());
    came(&error);
}

/// The same stream again: the wait for the peer's bytes is as long as before, although the peer
/// already has this side's endpoint.
/// Ends: exchange.
#[test]
fn a_repeated_exchange_has_the_full_time() {
    let (here, _there) = UnixStream::pair().unwrap();
    for _ in 0..3 {
        let error = fails(here.try_clone().unwrap(), &plain());
        assert_eq!(came(&error), 0);
    }
}

/// Another thread of this side shuts the stream down, before or during a read, which ends it.
/// Ends: exchange.
#[test]
fn a_stream_that_another_thread_shuts_down() {
    for _ in 0..8 {
        let (here, _there) = UnixStream::pair().unwrap();
        let shuts = here.try_clone().unwrap();
        let closer = thread::spawn(move || shuts.shutdown(Shutdown::Both).unwrap());
        let error = fails_within(long(), here, &plain());
        let ended = matches!(error, ExchangeError::HungUp { .. } | ExchangeError::Io { .. });
        assert!(ended, "{error}");
        closer.join().unwrap();
    }
}

/// A peer that does not read blocks writers.
/// Ends: exchange.
#[test]
fn a_peer_that_does_not_read() {
    let (mut here, _there) = UnixStream::pair().unwrap();
    here.set_nonblocking(true).unwrap();
    while here.write(&[0; 4096]).is_ok() {}
    here.set_nonblocking(false).unwrap();
    let error = fails(here, &plain());
    assert_eq!(came(&error), 0);
}

/// Nonblocking streams are retried, and streams with their own timeouts keep them.
#[test]
fn streams_with_their_own_settings() {
    for blocks in [true, false] {
        let (mut here, mut there) = UnixStream::pair().unwrap();
        here.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        // The system rounds it up.
        let own = here.read_timeout().unwrap();
        there.set_nonblocking(!blocks).unwrap();
        let other = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            exchange(&mut there, &lengthy(3), long()).unwrap()
        });
        assert_eq!(exchange(&mut here, &plain(), long()).unwrap(), lengthy(3));
        assert_eq!(other.join().unwrap(), plain());
        assert_eq!((here.read_timeout().unwrap(), here.write_timeout().unwrap()), (own, None));
    }
}
