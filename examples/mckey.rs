//! Sends datagrams to all members of a multicast group, like rdma-core's `mckey`.
//!
//! ```text
//! mckey -m GROUP [-b ADDRESS] [-C COUNT] [-S SIZE]       # a receiver; start any number
//! mckey -m GROUP [-b ADDRESS] [-C COUNT] [-S SIZE] -s    # the sender; ours, or rdma-core's
//! ```
//! The group is an IP multicast address, for example 239.77.0.1. Start the receivers first, because
//! a late receiver misses messages.

#![forbid(unsafe_code)]

mod cm_common;

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use bpaf::Bpaf;
use cm_common::{Datagrams, FEW, PATIENCE, Result, SOME, STEP, address, few, report, some};
use proverbs::cm::{AddrResolved, CmId, Group, Udp};

/// The time for switches, and for an InfiniBand subnet manager, to process the joins.
const SETTLE: Duration = Duration::from_secs(3);

/// Datagrams to a multicast group
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of the group
    #[bpaf(short('m'), argument("GROUP"))]
    multicast: String,
    /// Be the sender
    #[bpaf(short('s'))]
    sender: bool,
    /// Address of this end [default: the source of the route to the group]
    #[bpaf(short('b'), argument("ADDRESS"))]
    bind: Option<String>,
    /// Number of members in this program
    #[bpaf(short('c'), argument("MEMBERS"), fallback(1), display_fallback, guard(some, SOME))]
    connections: u32,
    /// Messages of each sender, and to each receiver
    #[bpaf(short('C'), argument("COUNT"), fallback(10), display_fallback, guard(few, FEW))]
    count: u32,
    /// Bytes of a message
    #[bpaf(short('S'), argument("SIZE"), fallback(100), display_fallback)]
    size: usize,
}

/// A member of the group.
struct Member {
    id: CmId<Udp, AddrResolved>,
    group: Group,
    end: Datagrams,
}

fn main() -> ExitCode {
    report("mckey", run(&options().run()))
}

fn run(options: &Options) -> Result<()> {
    println!("mckey: starting {}", if options.sender { "sender" } else { "receiver" });
    let join = |_| Member::join(options);
    let mut members = (0..options.connections).map(join).collect::<Result<Vec<_>>>()?;
    if options.sender {
        thread::sleep(SETTLE);
    }
    for member in &mut members {
        if options.sender { member.send(options)? } else { member.receive(options)? }
    }
    for member in members {
        member.leave()?;
    }
    let (Options { count, size, .. }, sender) = (options, options.sender);
    let what = if sender { "sent" } else { "received" };
    println!("mckey: {count} messages of {size} bytes {what}");
    Ok(())
}

impl Member {
    fn join(options: &Options) -> Result<Member> {
        let at = address(&options.multicast, 0)?;
        let id = CmId::<Udp, _>::new()?;
        // The device of the address, or the device on the route to the group.
        let mut id = match &options.bind {
            Some(here) => id.bind_addr(address(here, 0)?)?.resolve_addr(at, *STEP)?,
            None => id.resolve_addr(at, *STEP)?,
        };
        let mut end = Datagrams::new(&id, options.count, options.size)?;
        let group = id.join_multicast(at, *STEP)?;
        if !options.sender {
            group.attach(&mut end.qp)?;
        }
        println!("mckey: joined {}", group.gid());
        Ok(Member { id, group, end })
    }

    fn send(&mut self, options: &Options) -> Result<()> {
        let Options { count, size, .. } = *options;
        let peer = self.group.peer;
        let to = self.end.destination(peer.vector, peer.qpn, peer.qkey)?;
        self.end.send(to, count, size)?;
        self.end.wait(count, 0, size, *PATIENCE)
    }

    /// Receives the messages, whenever the sender starts.
    fn receive(&mut self, options: &Options) -> Result<()> {
        self.end.wait(0, options.count, options.size, Duration::MAX)
    }

    fn leave(mut self) -> Result<()> {
        self.group.detach(&mut self.end.qp)?;
        self.id.leave_multicast(self.group)?;
        self.end.close()?;
        Ok(self.id.destroy()?)
    }
}
