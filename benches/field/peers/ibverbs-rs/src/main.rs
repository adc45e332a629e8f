//! The crate `ibverbs-rs`: the queue pair, whose posts are unsafe, and the channel, which blocks.

mod channel;
mod queue_pair;

use field::{BATCH, DEVICE, LEN, REMOTE_ADDR, REMOTE_KEY};
use ibverbs_rs::ibverbs::memory::{MemoryRegion, RemoteMemoryRegion};
use ibverbs_rs::ibverbs::open_device;
use ibverbs_rs::ibverbs::protection_domain::ProtectionDomain;

/// Registered buffers, and where they go; a wr_id is the number of one.
pub struct Memory {
    pub data: Box<[[u8; LEN]; BATCH]>,
    pub mr: MemoryRegion,
    pub remote: RemoteMemoryRegion,
}

impl Memory {
    pub fn new(pd: &ProtectionDomain) -> Self {
        let data = Box::new([[0; LEN]; BATCH]);
        let mr = pd.register_local_mr_slice(data.as_flattened()).expect("a region");
        Memory { data, mr, remote: RemoteMemoryRegion::new(REMOTE_ADDR, LEN, REMOTE_KEY) }
    }
}

fn main() {
    let context = open_device(DEVICE).expect("a context");
    let pd = context.allocate_pd().expect("a domain");
    field::run(queue_pair::Form::new(&context, &pd));
    field::run(channel::Form::new(&pd));
}
