//! 1000 connections made and closed in one process, and lists requested from the C libraries:
//! nothing of them leaks.

use std::fs;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use proverbs::cm::*;
use proverbs::{post_send, wr};

use crate::support::{end, listener, long, routed};

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// The memory ranges that the process maps, such as the queues that it shares with the kernel.
fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Heap bytes in use by this crate, the C libraries and the test. Resident memory is less precise:
/// a leak hides in the holes of the heap, and unrelated pages become resident.
#[allow(unsafe_code)]
fn heap() -> usize {
    // SAFETY: mallinfo2 takes no arguments, and locks each arena while it counts there.
    let info = unsafe { libc::mallinfo2() };
    info.uordblks + info.hblkhd
}

/// The objects of a real device by kind.
fn on_device() -> Option<String> {
    let device = std::env::var("PROVERBS_DEVICE").ok()?;
    let out = Command::new("rdma").args(["resource", "show", &device]).output().unwrap();
    Some(String::from_utf8(out.stdout).unwrap())
}

/// Proves R16.20.
#[test]
#[ignore = "must be the only test in its process, since it counts the process's resources"]
fn a_thousand_connections_leave_nothing() {
    const WINDOWS: usize = 5;
    let count: usize = std::env::var("PROVERBS_CONNECTIONS").map_or(1000, |n| n.parse().unwrap());
    let (warm, window) = (count / 10 + 1, count / WINDOWS);
    let all = warm + WINDOWS * window;
    let (listening, at) = listener::<Tcp>();
    let (tell, told) = mpsc::sync_channel(1);
    let (measured, until_measured) = mpsc::channel::<()>();
    let server = thread::spawn(move || {
        for i in 0..all {
            {
                let request = listening.get_request_timeout(long()).unwrap();
                let (qp, mut end) = end(&request.id, 2);
                let mut connection = request.accept(qp, &AcceptParam::default(), long()).unwrap();
                assert_eq!(end.receive().data(), i.to_be_bytes());
                // Not waited for: the client may be gone before its device acknowledged this.
                post_send!(connection.qp, [wr::Send::inline(b"seen")]).unwrap();
                connection.id.wait_disconnected(long()).unwrap();
                end.drain(connection.disconnect().unwrap().qp);
            }
            tell.send(()).unwrap();
        }
        // A thread that ends returns the allocator's caches.
        until_measured.recv().unwrap_err();
        listening
    });
    let connect = |i: usize| {
        {
            let id = routed::<Tcp>(at);
            let (qp, mut end) = end(&id, 2);
            let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
            post_send!(connection.qp, [wr::Send::inline(&i.to_be_bytes())]).unwrap();
            // If this side leaves before the other one has its event, the other's `accept` sees a
            // disconnection.
            assert_eq!(end.receive().data(), b"seen");
            let mut ended = connection.disconnect().unwrap();
            ended.id.wait_disconnected(long()).unwrap();
            end.drain(ended.qp);
        }
        // Both sides have dropped everything.
        told.recv_timeout(long()).unwrap();
    };
    // The first connections warm up the caches of libraries and allocators.
    (0..warm).for_each(connect);
    let (descriptors_before, mappings_before) = (descriptors(), mappings());
    let mut held = vec![heap()];
    for first in (warm..all).step_by(window) {
        (first..first + window).for_each(connect);
        held.push(heap());
    }
    assert_eq!(descriptors(), descriptors_before, "a connection leaves no descriptor");
    // A mapping per connection would make a thousand; the allocator adds a few now and then.
    let mapped = mappings();
    assert!(mapped < mappings_before + 10, "mappings: {mappings_before} -> {mapped}");
    // A leak per connection grows in each window. The allocator's caches do not.
    let grown = held.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).min().unwrap();
    assert!(grown < 20 * window, "at least {} bytes a connection: {held:?}", grown / window);
    drop(measured);
    drop(server.join().unwrap());
    if let Some(device) = on_device() {
        for kind in ["qp 1 ", "cm_id 0 ", "mr 0 "] {
            assert!(device.contains(kind), "{device}");
        }
        println!("{device}");
    }
    println!("{} connections: bytes held {held:?}, {mapped} mappings", all - warm);
}

#[test]
#[ignore = "must be the only test in its process, since it counts the process's resources"]
fn lists_of_the_libraries_are_freed() {
    const TIMES: usize = 200;
    // malloc(3) allocates at least 24 bytes.
    let least = 24 * TIMES;
    let left_by = |call: &dyn Fn()| {
        // The first calls warm up the caches of the libraries.
        (0..10).for_each(|_| call());
        let before = heap();
        (0..TIMES).for_each(|_| call());
        heap().saturating_sub(before)
    };
    let devices = || assert_ne!(proverbs::device::devices().unwrap().len(), 0);
    let addresses = || drop(AddrInfo::<Tcp>::look_up("127.0.0.1", "7471").unwrap());
    for (what, left) in [("devices", left_by(&devices)), ("addresses", left_by(&addresses))] {
        assert!(left < least, "{TIMES} lists of {what} left {left} bytes");
        println!("{TIMES} lists of {what} left {left} bytes");
    }
}
