//! A program that tests itself: reliable messages over UD, on a device that loses, duplicates and
//! delays messages.
//!
//! The sender numbers its messages, waits until each is acknowledged, and sends it again if that
//! takes too long. The receiver acknowledges every message and accepts each number once. The
//! program checks this on a loopback device whose faults come from a seed:
//!
//! ```text
//! cargo run --example faults            # seed 1
//! cargo run --example faults -- 42      # the same faults at every run
//! ```

#![forbid(unsafe_code)]

use proverbs::completion::{Direction, GRH_LEN};
use proverbs::loopback::{Fabric, Fault, Script};
use proverbs::prelude::*;
use std::error::Error;

const MESSAGES: u32 = 1000;
/// The number of polls after which a message is sent again.
const PATIENCE: u32 = 4;
const QKEY: u32 = 0x1111;
const BUFFER: usize = GRH_LEN + 4;

fn main() -> Result<(), Box<dyn Error>> {
    let seed = match std::env::args().nth(1).as_deref() {
        None => 1,
        Some("-h" | "--help") => {
            println!("usage: faults [SEED]");
            return Ok(());
        }
        Some(seed) => {
            seed.parse().map_err(|_| format!("the seed must be a number, got `{seed}`"))?
        }
    };
    let fabric = Fabric::new();
    fabric.inject(
        Script::seeded(seed)
            .with(Fault::Lose.one_in(5))
            .with(Fault::Duplicate.one_in(10))
            .with(Fault::Delay { runs: 6 }.one_in(10))
            // The device's own queue is sometimes full.
            .with(Fault::Refuse { errno: 12 }.one_in(20).posting(Direction::Send)),
    );
    let (mut here, mut there) = (End::new(&fabric)?, End::new(&fabric)?);
    let (to_there, to_here) = (here.destination(&there)?, there.destination(&here)?);

    let mut sent = 0;
    let mut taken: Vec<u32> = Vec::new();
    for number in 0..MESSAGES {
        let mut patience = 0;
        loop {
            if patience == 0 {
                here.say(number, to_there)?;
                sent += 1;
                patience = PATIENCE;
            }
            patience -= 1;
            for heard in there.hear()? {
                if heard as usize == taken.len() {
                    taken.push(heard);
                }
                there.say(heard, to_here)?;
            }
            if here.hear()?.contains(&number) {
                break;
            }
        }
    }

    assert!(taken.iter().copied().eq(0..MESSAGES), "every message once, in order");
    println!("{MESSAGES} messages arrived once and in order, sent {sent} times (seed {seed})");
    for (fault, times) in fabric.injected().by_kind() {
        if times > 0 {
            println!("{times:>6} x {fault}");
        }
    }
    Ok(())
}

/// A device with a UD queue pair.
struct End {
    context: Context,
    pd: ProtectionDomain,
    cq: CompletionQueue,
    qp: QueuePair<Ud, Rts>,
    pool: Pool,
}

impl End {
    fn new(fabric: &Fabric) -> Result<End, Box<dyn Error>> {
        let context = fabric.open_device();
        let pd = context.alloc_pd()?;
        let cq = context.create_cq(64)?;
        let depth = Depth { send: 16, recv: 16 };
        let qp = pd.create_qp::<Ud, DefaultProfile>(&cq, &cq, depth)?;
        let qkey = Qkey::try_from(QKEY)?.into();
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey })?.modify(UdRtr::default())?;
        let mut qp = qp.modify(UdRts::new(Psn::try_from(0)?))?;
        let pool = pd.create_pool(16, BUFFER)?;
        for _ in 0..16 {
            qp.post_recv(wr::Recv::new(pool.take().ok_or("16 buffers")?))?;
        }
        Ok(End { context, pd, cq, qp, pool })
    }

    fn destination(&mut self, peer: &End) -> Result<wr::Destination, Box<dyn Error>> {
        let theirs = peer.context.roce_v2_gid(1)?.gid();
        let vector = AddressVector::roce_v2(self.context.roce_v2_gid(1)?, theirs)?;
        let address_handle = self.qp.add_address_handle(self.pd.create_ah(vector)?)?;
        let qpn = Qpn::try_from(peer.qp.qp_num())?;
        Ok(wr::Destination { address_handle, qpn, qkey: Qkey::try_from(QKEY)? })
    }

    /// Sends a number. If the device's queue is full, the message is lost.
    fn say(&mut self, number: u32, to: wr::Destination) -> Result<(), Box<dyn Error>> {
        match self.qp.post_send(wr::Send::inline(&number.to_be_bytes()).to(to)) {
            Err(error) if !error.is_full() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The received numbers. Their buffers are posted again.
    fn hear(&mut self) -> Result<Vec<u32>, Box<dyn Error>> {
        let mut heard = Vec::new();
        for completion in self.cq.poll()? {
            match completion.outcome() {
                Outcome::Datagram(datagram) => {
                    let bytes = datagram.payload().try_into()?;
                    heard.push(u32::from_be_bytes(bytes));
                }
                Outcome::Failed(failed) => return Err(failed.error.into()),
                _ => {}
            }
        }
        // Dropped buffers have returned to the pool.
        while let Some(buf) = self.pool.take() {
            self.qp.post_recv(wr::Recv::new(buf))?;
        }
        Ok(heard)
    }
}
