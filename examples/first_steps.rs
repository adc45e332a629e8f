//! First steps: connect two queue pairs, write with a chain, read back, fetch and add.
//!
//! Both ends are in this process: on the first RDMA device, or on the loopback device if there is
//! none. That device needs the feature `loopback`: `cargo add proverbs --features loopback`.

#![forbid(unsafe_code)]

use proverbs::completion::{Sent, WcOpcode};
use proverbs::device::LinkLayer;
use proverbs::loopback::Fabric;
use proverbs::prelude::*;
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let context = match devices().as_deref() {
        Ok([first, ..]) => Context::open(&first.name)?,
        none => {
            // Perhaps libibverbs is not installed, or this process may not open the device's file.
            if let Err(why) = none {
                println!("{why}");
            }
            println!("no RDMA device here: on the loopback device");
            Fabric::new().open_device()
        }
    };
    println!("both ends are on {}", context.name());
    let pd = context.alloc_pd()?;
    let mut cq = context.create_cq(32)?;
    let depth = Depth { send: 4, recv: 4 };
    let here = pd.create_qp(&cq, &cq, depth)?;
    let there = pd.create_qp(&cq, &cq, depth)?;
    let (here_num, there_num) = (here.qp_num(), there.qp_num());
    let mut here = connect(&context, here, there_num)?;
    let _there = connect(&context, there, here_num)?;

    // Memory that `there` opens to its peer: an 8-byte counter, and 16 bytes of text.
    let open = pd.register::<RemoteAll>(24)?;
    let (counter, text) = (open.remote().atomic(0)?, open.remote().slice(8, 16)?);

    // Four work requests, one doorbell. The device owns the buffers until their completions.
    let pool = pd.create_pool(3, 16)?;
    let buffer = || pool.take().ok_or("all buffers are in use");
    let mut data = buffer()?;
    data.copy_from(b"rules are types!")?;
    post_send!(
        here,
        [
            wr::RdmaWrite::new(data, text.write()),
            wr::RdmaWrite::inline(&37u64.to_ne_bytes(), open.remote().write()),
            wr::RdmaRead::new(buffer()?, text.read()),
            wr::FetchAndAdd::new(buffer()?, counter, 5),
        ]
    )?;

    while here.sends_outstanding() > 0 {
        for completion in cq.poll()? {
            match completion.outcome() {
                Outcome::Sent(Sent { opcode: WcOpcode::RdmaRead, entry: Some(buf), .. }) => {
                    println!("read back \"{}\"", buf.escape_ascii());
                    assert_eq!(buf[..], *b"rules are types!");
                }
                Outcome::Sent(Sent { opcode: WcOpcode::FetchAdd, entry: Some(buf), .. }) => {
                    let mut was = [0; 8];
                    was.copy_from_slice(&buf[..8]);
                    println!("the counter was {}", u64::from_ne_bytes(was));
                    assert_eq!(u64::from_ne_bytes(was), 37);
                }
                Outcome::Failed(failed) => return Err(failed.error.into()),
                _ => {} // a completed WRITE
            }
        }
    }
    let mut now = [0; 8];
    open.read_at(0, &mut now)?;
    println!("the counter is {}", u64::from_ne_bytes(now));
    assert_eq!(u64::from_ne_bytes(now), 42);
    Ok(())
}

/// Connects `qp` to `peer`, a queue pair of the same port. Over a network, the two ends would first
/// exchange number, PSN, LID and GID, as `rc_pingpong` does over TCP.
fn connect(
    context: &Context,
    qp: QueuePair<Rc, Reset>,
    peer: u32,
) -> Result<QueuePair<Rc, Rts>, Box<dyn Error>> {
    let port = context.query_port(1)?;
    let index = match std::env::var("PROVERBS_GID_INDEX") {
        Ok(index) => index.parse()?,
        Err(_) if port.link_layer == LinkLayer::Ethernet => context.roce_v2_gid(1)?.index(),
        Err(_) => 0, // the GID of an InfiniBand port itself
    };
    let gid = context.query_gid(1, index)?;
    let address = AddressVector { dlid: port.lid, ..AddressVector::roce(1, gid, index) };
    let psn = Psn::try_from(7)?;
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer)?, psn);
    let rts = RcRts::new(psn, ReadDepth::ONE);
    Ok(qp.modify(init)?.modify(rtr)?.modify(rts)?)
}
