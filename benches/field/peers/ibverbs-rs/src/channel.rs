//! `Channel`: sound, as each call waits for its completion; so there is a cycle and nothing else to
//! measure.

use field::{Api, DEPTH, Held, Work};
use ibverbs_rs::channel::Channel;
use ibverbs_rs::ibverbs::access_config::AccessFlags;
use ibverbs_rs::ibverbs::protection_domain::ProtectionDomain;
use ibverbs_rs::ibverbs::work::WriteWorkRequest;

use crate::Memory;

pub struct Form {
    channel: Channel,
    memory: Memory,
}

impl Form {
    pub fn new(pd: &ProtectionDomain) -> Self {
        let builder = Channel::builder().pd(pd).access(AccessFlags::new());
        let builder = builder.min_cq_entries(DEPTH).max_send_wr(DEPTH).max_recv_wr(DEPTH);
        let prepared = builder.build().expect("a channel");
        let endpoint = prepared.endpoint();
        Form { channel: prepared.handshake(endpoint).expect("RTS"), memory: Memory::new(pd) }
    }
}

impl Api for Form {
    const CRATE: &'static str = "ibverbs-rs";
    const FORM: &'static str = "Channel";
    const HELD: Held = Held {
        lifetime: "type",
        range: "device",
        transport: "type",
        state: "type",
        overrun: "nobody",
        refused: "run",
        note: "blocks until the completion; a scope defers that to its end",
    };
    const OFFERS: &'static [Work] = &[Work::Cycle];

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        let Memory { data, mr, remote } = &self.memory;
        let elements = [mr.gather_element(&data[..])];
        self.channel.write(WriteWorkRequest::new(&elements, *remote)).is_ok()
    }
}
