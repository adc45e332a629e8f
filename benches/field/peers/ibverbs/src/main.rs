//! The crate `ibverbs`: SEND and receive, one work request a post.

use std::hint::black_box;

use field::{Api, BATCH, DEPTH, Done, Held, LEN, ROUNDS, Work, length};
use ibverbs::{CompletionQueue, Context, MemoryRegion, ProtectionDomain, QueuePair};
use ibverbs::{ibv_qp_type, ibv_wc, ibv_wc_opcode};

struct Form {
    qp: QueuePair<'static>,
    cq: &'static CompletionQueue<'static>,
    /// One buffer behind the other; a wr_id is the number of one.
    mr: MemoryRegion<u8>,
    completions: [ibv_wc; BATCH],
}

impl Form {
    #[inline(always)]
    fn sends(&mut self, length: impl Fn(usize) -> usize) -> Done {
        let mut id = 0;
        for round in 0..ROUNDS {
            let start = id as usize * LEN;
            let range = start..start + length(round);
            // SAFETY: the region lives as long as the process.
            unsafe { self.qp.post_send(&mut self.mr, range, id) }?;
            let completed = self.cq.poll(&mut self.completions[..1])?;
            let wc = completed.first().filter(|wc| wc.is_valid()).ok_or("no success")?;
            id = wc.wr_id();
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            for wc in self.cq.poll(&mut self.completions)? {
                if !wc.is_valid() {
                    return Err("failed".into());
                }
                let (id, start) = (wc.wr_id(), wc.wr_id() as usize * LEN);
                if wc.opcode() == ibv_wc_opcode::IBV_WC_RECV {
                    let range = start..start + wc.len();
                    // SAFETY: the region lives as long as the process.
                    unsafe { self.qp.post_send(&mut self.mr, range, id) }?;
                } else {
                    let range = start..start + LEN;
                    // SAFETY: the region lives as long as the process.
                    unsafe { self.qp.post_receive(&mut self.mr, range, id) }?;
                }
                done += 1;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn poll(&mut self, n: usize) -> bool {
        let Ok(completed) = self.cq.poll(&mut self.completions[..n]) else { return false };
        completed.iter().all(|wc| {
            black_box(wc.wr_id());
            wc.is_valid()
        })
    }
}

impl Api for Form {
    const CRATE: &'static str = "ibverbs";
    const FORM: &'static str = "QueuePair";
    const SENDS: bool = true;
    const HELD: Held = Held {
        lifetime: "unsafe",
        range: "run",
        transport: "device",
        state: "type",
        overrun: "nobody",
        refused: "run",
        note: "SEND and receive only, one at a time; nothing inline, every send signaled",
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
        // SAFETY: the region lives as long as the process.
        unsafe { self.qp.post_send(&mut self.mr, ..LEN, 1) }.is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        // SAFETY: the region lives as long as the process.
        unsafe { self.qp.post_receive(&mut self.mr, ..LEN, 1) }.is_ok()
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
        self.sends(|_| LEN).is_ok()
    }

    #[inline(always)]
    fn lengths(&mut self) -> bool {
        self.sends(length).is_ok()
    }

    #[inline(always)]
    fn echoes(&mut self, items: usize) -> bool {
        self.answers(items).is_ok()
    }

    fn receive_before(&mut self, n: usize) -> bool {
        (0..n).all(|i| {
            let range = i * LEN..(i + 1) * LEN;
            // SAFETY: the region lives as long as the process.
            unsafe { self.qp.post_receive(&mut self.mr, range, i as u64) }.is_ok()
        })
    }
}

fn main() {
    let devices = ibverbs::devices().expect("a list");
    let context = devices.get(0).expect("a device").open().expect("a context");
    let context: &'static Context = Box::leak(Box::new(context));
    let pd: &'static ProtectionDomain = Box::leak(Box::new(context.alloc_pd().expect("a domain")));
    let cq = context.create_cq(DEPTH as i32, 0).expect("a completion queue");
    let cq: &'static CompletionQueue = Box::leak(Box::new(cq));
    let mut builder = pd.create_qp(cq, cq, ibv_qp_type::IBV_QPT_RC);
    builder.set_max_send_wr(DEPTH).set_max_recv_wr(DEPTH);
    let prepared = builder.build().expect("a queue pair");
    let endpoint = prepared.endpoint();
    let qp = prepared.handshake(endpoint).expect("RTS");
    let mr = pd.allocate(BATCH * LEN).expect("a region");
    field::run(Form { qp, cq, mr, completions: [ibv_wc::default(); BATCH] });
}
