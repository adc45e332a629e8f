//! Messages a second: RDMA WRITEs from one queue pair to another of the same device, in chains.
//!
//! `proverbs-rate DEVICE GID-INDEX MESSAGES CHAIN polled|events` prints the seconds that it took.
//! `rate.c` does the same, call for call: a window of 64 work requests, only the last of a chain
//! signaled, polls of 16.

#![forbid(unsafe_code)]

use std::error::Error;
use std::time::Instant;

use proverbs::prelude::*;

profile! { Chosen { signaling: Selective } }

const WINDOW: usize = 64;
const SIZE: usize = 64;
const LONGEST: usize = 16;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, device, gid_index, messages, chain, mode] = &args[..] else {
        return Err("usage: proverbs-rate DEVICE GID-INDEX MESSAGES CHAIN polled|events".into());
    };
    let (messages, chain): (usize, usize) = (messages.parse()?, chain.parse()?);
    if !(1..=LONGEST).contains(&chain) || messages % chain != 0 {
        return Err("a chain has 1 to 16 work requests, and the messages are a multiple".into());
    }

    let context = Context::open(device)?;
    let pd = context.alloc_pd()?;
    let mut channel = context.create_comp_channel()?;
    // The queue pair books its depths here, and one more of each queue for a drain.
    let entries = WINDOW as u32 + 3;
    let mut cq = match mode.as_str() {
        "events" => context.create_cq_on(entries, &channel)?,
        _ => context.create_cq(entries)?,
    };
    let there_cq = context.create_cq(8)?;
    let sender = Depth { send: WINDOW as u32, recv: 1 };
    let here = pd.create_qp::<Rc, Chosen>(&cq, &cq, sender)?;
    let there =
        pd.create_qp::<Rc, DefaultProfile>(&there_cq, &there_cq, Depth { send: 1, recv: 1 })?;
    let (here_num, there_num) = (here.qp_num(), there.qp_num());
    let gid_index = gid_index.parse()?;
    let mut here = connect(&context, here, there_num, gid_index)?;
    let _there = connect(&context, there, here_num, gid_index)?;
    let target = pd.register::<RemoteAll>(SIZE)?;
    let at = target.remote().write();
    let pool = pd.create_pool(WINDOW, SIZE)?;
    let mut free: Vec<Buf> = std::iter::from_fn(|| pool.take()).collect();

    let (mut posted, mut done) = (0, 0);
    let start = Instant::now();
    while done < messages {
        while posted < messages && free.len() >= chain {
            let mut slots = SendSlots::<LONGEST>::new();
            let mut list = here.send_list(&mut slots);
            for buf in free.drain(free.len() - chain..) {
                list.push(wr::RdmaWrite::new(buf, at))?;
            }
            list.post()?;
            posted += chain;
        }
        let completions = match mode.as_str() {
            "events" => channel.wait(&mut cq)?,
            _ => cq.poll()?,
        };
        for completion in completions {
            let completed = here.complete(completion).map_err(|_| "a stranger's completion")?;
            completed.status?;
            let before = free.len();
            free.extend(completed.released);
            done += free.len() - before;
        }
    }
    println!("{:.6}", start.elapsed().as_secs_f64());
    Ok(())
}

fn connect<P: Profile<Initiator = Reads>>(
    context: &Context,
    qp: QueuePair<Rc, Reset, P>,
    peer: u32,
    gid_index: u8,
) -> Result<QueuePair<Rc, Rts, P>, Box<dyn Error>> {
    let address = AddressVector::roce(1, context.query_gid(1, gid_index)?, gid_index);
    let psn = Psn::try_from(7)?;
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer)?, psn);
    let qp = qp.modify(init).map_err(|_| "INIT was refused")?;
    let qp = qp.modify(rtr).map_err(|_| "RTR was refused")?;
    Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE)).map_err(|_| "RTS was refused")?)
}
