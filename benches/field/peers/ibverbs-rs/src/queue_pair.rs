//! `QueuePair`: posts are unsafe, polls give what was completed.

use std::hint::black_box;

use field::{Api, BATCH, DEPTH, Done, Held, LEN, ROUNDS, Work, length};
use ibverbs_rs::ibverbs::access_config::AccessFlags;
use ibverbs_rs::ibverbs::completion_queue::{CompletionQueue, PollSlot};
use ibverbs_rs::ibverbs::device::Context;
use ibverbs_rs::ibverbs::protection_domain::ProtectionDomain;
use ibverbs_rs::ibverbs::queue_pair::QueuePair;
use ibverbs_rs::ibverbs::work::{ReceiveWorkRequest, SendWorkRequest, WriteWorkRequest};

use crate::Memory;

/// What a wr_id has besides the number of a buffer: a completion does not tell its opcode.
const RECEIVE: u64 = 1 << 32;

pub struct Form {
    qp: QueuePair,
    cq: CompletionQueue,
    memory: Memory,
    slots: [PollSlot; BATCH],
}

impl Form {
    pub fn new(context: &Context, pd: &ProtectionDomain) -> Self {
        let cq = context.create_cq(DEPTH).expect("a completion queue");
        let builder = QueuePair::builder().pd(pd).send_cq(&cq).recv_cq(&cq);
        let builder = builder.access(AccessFlags::new()).max_send_wr(DEPTH).max_recv_wr(DEPTH);
        let prepared = builder.build().expect("a queue pair");
        let endpoint = prepared.endpoint();
        let qp = prepared.handshake(endpoint).expect("RTS");
        Form { qp, cq, memory: Memory::new(pd), slots: [PollSlot::default(); BATCH] }
    }

    #[inline(always)]
    fn writes(&mut self, length: impl Fn(usize) -> usize) -> Done {
        let Memory { data, mr, remote } = &self.memory;
        let mut id = 0;
        for round in 0..ROUNDS {
            let elements = [mr.gather_element(&data[id as usize][..length(round)])];
            // SAFETY: the data lives as long as the process.
            unsafe { self.qp.post_write(WriteWorkRequest::new(&elements, *remote), id) }?;
            let mut completions = self.cq.poll(&mut self.slots[..1])?.into_iter();
            let wc = completions.next().ok_or("no completion")?;
            wc.result()?;
            id = wc.wr_id();
        }
        Ok(())
    }

    #[inline(always)]
    fn receive(&mut self, id: usize) -> Done {
        let Memory { data, mr, .. } = &mut self.memory;
        let mut elements = [mr.scatter_element(&mut data[id])];
        let wr = ReceiveWorkRequest::new(&mut elements);
        // SAFETY: the data lives as long as the process, and the stub writes nothing.
        unsafe { Ok(self.qp.post_receive(wr, RECEIVE | id as u64)?) }
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        // Of their own: they are lent to the completions, and `receive` borrows all of `self`.
        let mut slots = [PollSlot::default(); BATCH];
        let mut done = 0;
        while done < items {
            for wc in self.cq.poll(&mut slots)? {
                let success = wc.result()?;
                let id = (wc.wr_id() & !RECEIVE) as usize;
                if wc.wr_id() & RECEIVE != 0 {
                    let Memory { data, mr, .. } = &self.memory;
                    let arrived = &data[id][..success.gathered_length()];
                    let elements = [mr.gather_element(arrived)];
                    let wr = SendWorkRequest::new(&elements);
                    // SAFETY: the data lives as long as the process.
                    unsafe { self.qp.post_send(wr, id as u64) }?;
                } else {
                    self.receive(id)?;
                }
                done += 1;
            }
        }
        Ok(())
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
        note: "RC only, SEND, WRITE, READ, one at a time; nothing inline, every send signaled; addresses by LID",
    };
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Recv,
        Work::Poll1,
        Work::Poll16,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Echo,
        Work::Echo8,
    ];

    #[inline(always)]
    fn post(&mut self) -> bool {
        let Memory { data, mr, remote } = &self.memory;
        let elements = [mr.gather_element(&data[0])];
        // SAFETY: the data lives as long as the process.
        unsafe { self.qp.post_write(WriteWorkRequest::new(&elements, *remote), 1) }.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        let Memory { data, mr, .. } = &mut self.memory;
        let mut elements = [mr.scatter_element(&mut data[0])];
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

    #[inline(always)]
    fn write_loop(&mut self) -> bool {
        self.writes(|_| LEN).is_ok()
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        self.writes(length).is_ok()
    }

    #[inline(always)]
    fn echoes(&mut self, items: usize) -> bool {
        self.answers(items).is_ok()
    }

    fn receive_before(&mut self, n: usize) -> bool {
        (0..n).all(|id| self.receive(id).is_ok())
    }
}
