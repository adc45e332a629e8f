//! `Channel`: sound, as each call waits for its completion; so there is a cycle and nothing else to
//! measure but loops of WRITEs: a receive cannot be posted before it is waited for.

use field::{Api, DEPTH, Held, LEN, ROUNDS, Work, length};
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

    #[inline(always)]
    fn writes(&mut self, length: impl Fn(usize) -> usize) -> bool {
        let Memory { data, mr, remote } = &self.memory;
        (0..ROUNDS).all(|round| {
            let elements = [mr.gather_element(&data[0][..length(round)])];
            self.channel.write(WriteWorkRequest::new(&elements, *remote)).is_ok()
        })
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
    const OFFERS: &'static [Work] = &[Work::Cycle, Work::Loop, Work::Length];

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        let Memory { data, mr, remote } = &self.memory;
        let elements = [mr.gather_element(&data[0])];
        self.channel.write(WriteWorkRequest::new(&elements, *remote)).is_ok()
    }

    #[inline(always)]
    fn write_loop(&mut self) -> bool {
        self.writes(|_| LEN)
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        self.writes(length)
    }
}
