//! 1000 connections made and closed in one process, and lists asked of the C libraries: nothing is
//! left of them.

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

/// Ranges of memory that the process maps, such as the queues that it shares with the kernel.
fn mappings() -> usize {
    fs::read_to_string("/proc/self/maps").unwrap().lines().count()
}

/// Bytes of the heap that somebody holds: this crate, the C libraries, the test. Resident memory
/// tells less: a leak hides in the holes of the heap, and pages become resident that nobody asked
/// for.
#[allow(unsafe_code)]
fn heap() -> usize {
    // SAFETY: mallinfo2 takes nothing, and locks each arena while it counts there.
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
#[ignore = "to be run alone, since it counts what the process holds"]
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
        // A thread that ends gives back what the allocator kept for it.
        until_measured.recv().unwrap_err();
        listening
    });
    let connect = |i: usize| {
        {
            let id = routed::<Tcp>(at);
            let (qp, mut end) = end(&id, 2);
            let mut connection = id.connect(qp, &ConnParam::default(), long()).unwrap();
            post_send!(connection.qp, [wr::Send::inline(&i.to_be_bytes())]).unwrap();
            // Who leaves before the other side knows of the connection is a disconnection to its
            // `accept`.
            assert_eq!(end.receive().data(), b"seen");
            let mut ended = connection.disconnect().unwrap();
            ended.id.wait_disconnected(long()).unwrap();
            end.drain(ended.qp);
        }
        // Both sides have dropped everything.
        told.recv_timeout(long()).unwrap();
    };
    // The first ones bring libraries and allocators to what they keep.
    (0..warm).for_each(connect);
    let (descriptors_before, mappings_before) = (descriptors(), mappings());
    let mut held = vec![heap()];
    for first in (warm..all).step_by(window) {
        (first..first + window).for_each(connect);
        held.push(heap());
    }
    assert_eq!(descriptors(), descriptors_before, "a connection leaves no descriptor");
    // A mapping for each connection would be a thousand; the allocator has a few more now and then.
    let mapped = mappings();
    assert!(mapped < mappings_before + 10, "mappings: {mappings_before} -> {mapped}");
    // What a connection leaves grows in each window. What the allocator keeps for each size does
    // not.
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
#[ignore = "to be run alone, since it counts what the process holds"]
fn lists_of_the_libraries_are_freed() {
    const TIMES: usize = 200;
    // malloc(3) gives no less than 24 bytes.
    let least = 24 * TIMES;
    let left_by = |call: &dyn Fn()| {
        // The first ones bring the libraries to what they keep.
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
