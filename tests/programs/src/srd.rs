//! A life of SRD queue pairs, on their own device: messages and RDMA to each other, in any order,
//! and an end at any point.

use proverbs::ext::extended_posting::ExtendedPosting;
use proverbs::ext::srd::SrdRts;
use proverbs::loopback::{Fabric, World as Of};
use proverbs::prelude::*;

use crate::world::{DEPTH, World};

profile! { Spread { posting: ExtendedPosting<(Srd, wr::RdmaWrite)>, max_inline: 32 } }

/// How a life ends.
#[derive(Clone, Copy, PartialEq)]
pub enum End {
    Drain,
    Drop,
    Destroy,
    Reset,
}

/// The result of a life, which must be `Ok`: the device is fresh.
type Lived = Result<(), Box<dyn std::error::Error>>;

impl World {
    /// `rounds` of posts, each followed by `polled` polls; in the `removed`th round an address
    /// handle is removed, and from the `ready`th on the peer posts receives.
    pub fn spreads(
        &self,
        seed: u64,
        rounds: usize,
        polled: usize,
        removed: usize,
        ready: usize,
        end: End,
    ) {
        if let Err(error) = live(self, seed, (rounds, polled, removed, ready), end) {
            self.complain(format!("SRD, shuffled by {seed}: {error}"));
        }
    }
}

fn live(w: &World, seed: u64, numbers: (usize, usize, usize, usize), end: End) -> Lived {
    let (rounds, polled, removed, ready) = numbers;
    let context = Fabric::with(Of::efa().shuffled(seed)).open_device();
    let pd = context.alloc_pd()?;
    let pool = pd.create_pool(16, 64)?;
    let mut cq: CompletionQueue = context.create_cq(64)?;
    let region = pd.register::<RemoteReadWrite>(64)?;
    let (qkey, psn) = (Qkey::try_from(0x11)?, Psn::try_from(0)?);
    let qp = || -> Result<QueuePair<Srd, Rts, Spread>, Box<dyn std::error::Error>> {
        let qp = pd.create_qp::<Srd, Spread>(&cq, &cq, DEPTH)?;
        let qp = qp.modify(UdInit { pkey_index: 0, port: 1, qkey: qkey.into() })?;
        Ok(qp.modify(UdRtr::default())?.modify(SrdRts::new(psn))?)
    };
    let (mut one, mut two) = (qp()?, qp()?);
    let ah = || pd.create_ah(AddressVector::roce(1, context.query_gid(1, 1)?, 1));
    let number = ah()?.efa_number()?;
    let mut way = one.add_address_handle(ah()?)?;
    // The third is the last in which an address handle is removed.
    for round in 0..if cfg!(miri) { rounds.min(3) } else { rounds } {
        let qpn = Qpn::try_from(two.qp_num())?;
        let to = |address_handle| wr::Destination { address_handle, qpn, qkey };
        if round == removed {
            one.remove_address_handle(way);
            way = one.add_address_handle(ah()?)?;
        }
        // A full queue returns the buffers.
        for i in 0..4 {
            let Some(mut buf) = pool.take() else { break };
            buf.fill(round as u8);
            let _ = match (round + i) % 4 {
                0 => one.post_send(wr::Send::new(buf).to(to(way))),
                1 => one.post_send(wr::RdmaWrite::new(buf, region.remote().write()).to(to(way))),
                2 => one.post_send(wr::RdmaRead::new(buf, region.remote().read()).to(to(way))),
                _ if round < ready => continue,
                _ => two.post_recv(wr::Recv::new(buf)),
            };
        }
        for _ in 0..polled {
            for completion in cq.poll()? {
                if let Some(sender) = two.sender(&completion) {
                    if (sender.qpn.get(), sender.ah_number) != (one.qp_num(), Some(number)) {
                        w.complain(format!("{sender:?} is not the sender"));
                    }
                }
                if let Err(error) = completion.status() {
                    w.complain(format!("shuffled by {seed}: {error}"));
                }
                drop(completion.into_entry());
            }
        }
        one.reap_address_handles();
    }
    match end {
        End::Drain => {
            let (mut one, mut two) = (one.to_error()?, two.to_error()?);
            one.drain(&mut cq, |found| drop(found))?;
            two.drain(&mut cq, |found| drop(found))?;
            if pool.available() != 16 {
                w.complain(format!("{} of 16 buffers are drained", pool.available()));
            }
        }
        End::Drop => drop((one, two)),
        End::Destroy => drop((one.destroy()?, two.destroy()?)),
        End::Reset => drop((one.reset()?, two.reset()?)),
    }
    for _ in 0..64 {
        cq.poll()?.for_each(drop);
        pool.reclaim(&mut cq);
        if cfg!(miri) && pool.available() == 16 {
            break;
        }
    }
    if pool.available() != 16 {
        w.complain(format!("{} of 16 buffers returned, shuffled by {seed}", pool.available()));
    }
    Ok(())
}
