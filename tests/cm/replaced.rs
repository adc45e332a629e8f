//! A kernel's device is removed while another takes its name. (`removed` does so on fabrics.)
//!
//! It also creates a network device, so it runs only in a guest where `PROVERBS_MAY_REPLACE` names
//! a Soft-RoCE device: `cargo xtask test guest` does so. Afterwards the device of that name has the
//! address 10.77.9.1.

use std::net::SocketAddr;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use proverbs::cm::*;
use proverbs::{DefaultProfile, Depth};

use crate::support::{address, connected_at, long, new_id};

/// Runs a command line, which must succeed.
fn run(line: &str) {
    let words: Vec<&str> = line.split_whitespace().collect();
    let output = Command::new(words[0]).args(&words[1..]).output().unwrap();
    assert!(output.status.success(), "{line}: {output:?}");
}

/// Waits until rdma_cm finds the device of an address. The kernel updates its tables
/// asynchronously.
fn until_found(at: SocketAddr) {
    let start = Instant::now();
    while let Err(refused) = new_id::<Tcp>().resolve_addr(at, long()) {
        assert!(start.elapsed() < long(), "{refused}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Sends one message on a connection of the device with this address. Returns a buffer that stays
/// alive, and its protection domain.
fn serve(at: SocketAddr) -> (impl Sized, proverbs::ProtectionDomain) {
    let (connection, active, server) = connected_at(at, |connection, _| drop(connection));
    let buf = active.pool.take().unwrap();
    let pd = connection.id.pd().unwrap();
    drop(connection);
    server.join().unwrap();
    (buf, pd)
}

#[test]
fn a_server_serves_again_on_a_device_of_the_same_name() {
    let Ok(name) = std::env::var("PROVERBS_MAY_REPLACE") else {
        return eprintln!("not run: PROVERBS_MAY_REPLACE names no device");
    };
    let new: SocketAddr = "10.77.9.1:0".parse().unwrap();
    run("ip link add dummy9 type dummy");
    run("ip addr add 10.77.9.1/24 dev dummy9");
    run("ip link set dummy9 up");

    until_found(address(0));
    let (buf, pd) = serve(address(0));
    run(&format!("rdma dev set {name} name goes0"));
    // It returns when the device has no more users: librdmacm is one until this process ends.
    thread::spawn(|| Command::new("rdma").args(["link", "delete", "goes0"]).status());
    run(&format!("rdma link add {name} type rxe netdev dummy9"));
    until_found(new);

    let id = new_id::<Tcp>().resolve_addr(new, long()).unwrap();
    assert_eq!(id.device(), Some(&*name));
    let cq = id.context().unwrap().create_cq(4).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let error = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
    let text = error.to_string();
    let told = format!("a queue pair on another device called {name}");
    assert!(text.contains(&told), "{text}");
    drop((id, cq));
    // The buffer of the old device still exists.
    drop(serve(new));
    drop((buf, pd));
}
