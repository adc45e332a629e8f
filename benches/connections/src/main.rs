//! Connects RC queue pairs in pairs and destroys them: `proverbs-connections DEVICE GID-INDEX
//! COUNT`. `connections.c` makes the same calls; `connections.sh` counts the system calls of both.

#![forbid(unsafe_code)]

use std::error::Error;

use proverbs::prelude::*;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, device, gid_index, count] = &args[..] else {
        return Err("usage: connections DEVICE GID-INDEX COUNT".into());
    };
    let (gid_index, count): (u8, u32) = (gid_index.parse()?, count.parse()?);
    let context = Context::open(device)?;
    let pd = context.alloc_pd()?;
    let address = AddressVector::roce(1, context.query_gid(1, gid_index)?, gid_index);
    let cq: CompletionQueue = context.create_cq(count * 10)?;
    let depth = Depth { send: 4, recv: 4 };
    let made: Vec<_> = (0..count)
        .map(|_| pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth))
        .collect::<Result<_, _>>()?;
    let numbers: Vec<u32> = made.iter().map(QueuePair::qp_num).collect();
    let psn = Psn::try_from(7)?;
    let connected: Vec<_> = (0..)
        .zip(made)
        .map(|(i, qp)| {
            let peer = Qpn::try_from(numbers[i ^ 1])?;
            let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
            let qp = qp.modify(init).map_err(|_| "INIT was refused")?;
            let rtr = RcRtr::new(address, peer, psn);
            let qp = qp.modify(rtr).map_err(|_| "RTR was refused")?;
            Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE)).map_err(|_| "RTS was refused")?)
        })
        .collect::<Result<_, Box<dyn Error>>>()?;
    drop(connected);
    Ok(())
}
