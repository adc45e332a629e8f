//! `QueuePair`: posts are unsafe, polls give what was completed.

use std::hint::black_box;

use field::{Api, DEPTH, Held, Work};
use ibverbs_rs::ibverbs::access_config::AccessFlags;
use ibverbs_rs::ibverbs::completion_queue::{CompletionQueue, PollSlot};
use ibverbs_rs::ibverbs::device::Context;
use ibverbs_rs::ibverbs::protection_domain::ProtectionDomain;
use ibverbs_rs::ibverbs::queue_pair::QueuePair;
use ibverbs_rs::ibverbs::work::{ReceiveWorkRequest, WriteWorkRequest};

use crate::Memory;

pub struct Form {
    qp: QueuePair,
    cq: CompletionQueue,
    memory: Memory,
    slots: [PollSlot; 16],
}

impl Form {
    pub fn new(context: &Context, pd: &ProtectionDomain) -> Self {
        let cq = context.create_cq(DEPTH).expect("a completion queue");
        let builder = QueuePair::builder().pd(pd).send_cq(&cq).recv_cq(&cq);
        let builder = builder.access(AccessFlags::new()).max_send_wr(DEPTH).max_recv_wr(DEPTH);
        let prepared = builder.build().expect("a queue pair");
        let endpoint = prepared.endpoint();
        let qp = prepared.handshake(endpoint).expect("RTS");
        Form { qp, cq, memory: Memory::new(pd), slots: [PollSlot::default(); 16] }
    }

    #[inline(always)]
    fn poll(&mut self, n: usize) -> bool {
        let Ok(completions) = self.cq.poll(&mut self.slots[..n]) else { return false };
        completions.into_iter().all(|wc| {
            black_box(wc.wr_id());
            wc.result().is_ok()
        })
    }
}

impl Api for Form {
    const CRATE: &'static str = "ibverbs-rs";
    const FORM: &'static str = "QueuePair";
    const HELD: Held = Held {
        lifetime: "unsafe",
        range: "unsafe",
        transport: "type",
        state: "type",
        overrun: "nobody",
        refused: "run",
        note: "RC only, SEND, WRITE, READ; addresses by LID",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

    #[inline(always)]
    fn post(&mut self) -> bool {
        let Memory { data, mr, remote } = &self.memory;
        let elements = [mr.gather_element(&data[..])];
        // SAFETY: the data lives as long as the process.
        unsafe { self.qp.post_write(WriteWorkRequest::new(&elements, *remote), 1) }.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        let Memory { data, mr, .. } = &mut self.memory;
        let mut elements = [mr.scatter_element(&mut data[..])];
        // SAFETY: the data lives as long as the process, and the stub writes nothing.
        unsafe { self.qp.post_receive(ReceiveWorkRequest::new(&mut elements), 1) }.is_ok()
    }

    #[inline(always)]
    fn poll1(&mut self) -> bool {
        self.poll(1)
    }

    #[inline(always)]
    fn poll16(&mut self) -> bool {
        self.poll(16)
    }

    #[inline(always)]
    fn cycle(&mut self) -> bool {
        self.post() && self.poll1()
    }
}
