//! 1000 connections made and closed in one process, and nothing is left of them.

use std::fs;
use std::process::Command;
use std::thread;

use proverbs::cm::*;
use proverbs::{post_send, wr};

use crate::support::{LONG, end, listener, routed};

/// What the process and the device hold: descriptors, KiB of memory, and the device's objects by kind.
fn holdings() -> (usize, usize, String) {
    let fds = fs::read_dir("/proc/self/fd").unwrap().count();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let rss = rss.trim().trim_end_matches(" kB").parse().unwrap();
    let device = std::env::var("PROVERBS_DEVICE").unwrap();
    let out = Command::new("rdma").args(["resource", "show", &device]).output().unwrap();
    (fds, rss, String::from_utf8(out.stdout).unwrap())
}

#[test]
#[ignore = "needs an RDMA device; run alone, since it counts what the process holds"]
fn a_thousand_connections_leave_nothing() {
    let count: usize = std::env::var("PROVERBS_CONNECTIONS").map_or(1000, |n| n.parse().unwrap());
    let warm = count / 10 + 1;
    let (listening, at) = listener::<Tcp>();
    let server = thread::spawn(move || {
        for i in 0..warm + count {
            let request = listening.get_request().unwrap();
            let (qp, mut end) = end(&request.id, 2);
            let mut connection = request.accept(qp, &AcceptParam::default(), LONG).unwrap();
            assert_eq!(end.receive().data(), i.to_be_bytes());
            // Not waited for: the client may be gone before its device acknowledged this.
            post_send!(connection.qp, [wr::Send::inline(b"seen")]).unwrap();
            connection.id.wait_disconnected(LONG).unwrap();
            end.drain(connection.disconnect().unwrap().qp);
        }
        listening
    });
    let connect = |i: usize| {
        let id = routed::<Tcp>(at);
        let (qp, mut end) = end(&id, 2);
        let mut connection = id.connect(qp, &ConnParam::default(), LONG).unwrap();
        post_send!(connection.qp, [wr::Send::inline(&i.to_be_bytes())]).unwrap();
        // Who leaves before the other side knows of the connection is a disconnection to its `accept`.
        assert_eq!(end.receive().data(), b"seen");
        let mut ended = connection.disconnect().unwrap();
        ended.id.wait_disconnected(LONG).unwrap();
        end.drain(ended.qp);
    };
    // The first ones bring libraries and allocators to what they keep.
    (0..warm).for_each(connect);
    let (_, rss_before, _) = holdings();
    (warm..warm + count).for_each(connect);
    drop(server.join().unwrap());
    let (fds, rss, device) = holdings();
    let (fds_idle, _, _) = {
        drop(routed::<Tcp>(listener::<Tcp>().1));
        holdings()
    };
    assert_eq!(fds, fds_idle, "a connection leaves no descriptor");
    // The kernel counts in pages and allocators keep some; a leak would be hundreds of bytes each.
    let grown = rss.saturating_sub(rss_before) * 1024 / count;
    assert!(grown < 200, "{grown} bytes a connection: {rss_before} -> {rss} KiB");
    for kind in ["qp 1 ", "cm_id 0 ", "mr 0 "] {
        assert!(device.contains(kind), "{device}");
    }
    println!("{count} connections: {fds} descriptors, {rss_before} -> {rss} KiB, {device}");
}
