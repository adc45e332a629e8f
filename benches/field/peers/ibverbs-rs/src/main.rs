//! The crate `ibverbs-rs`: the queue pair, whose posts are unsafe, and the channel, which blocks.

mod channel;
mod queue_pair;

use field::{DEVICE, LEN, REMOTE_ADDR, REMOTE_KEY};
use ibverbs_rs::ibverbs::memory::{MemoryRegion, RemoteMemoryRegion};
use ibverbs_rs::ibverbs::open_device;
use ibverbs_rs::ibverbs::protection_domain::ProtectionDomain;

/// A registered buffer, and where it goes.
pub struct Memory {
    pub data: Box<[u8; LEN]>,
    pub mr: MemoryRegion,
    pub remote: RemoteMemoryRegion,
}

impl Memory {
    pub fn new(pd: &ProtectionDomain) -> Self {
        let data = Box::new([0; LEN]);
        let mr = pd.register_local_mr_slice(&data[..]).expect("a region");
        Memory { data, mr, remote: RemoteMemoryRegion::new(REMOTE_ADDR, LEN, REMOTE_KEY) }
    }
}

fn main() {
    let context = open_device(DEVICE).expect("a context");
    let pd = context.allocate_pd().expect("a domain");
    field::run(queue_pair::Form::new(&context, &pd));
    field::run(channel::Form::new(&pd));
}
