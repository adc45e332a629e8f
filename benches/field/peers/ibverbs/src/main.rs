//! The crate `ibverbs`: SEND and receive, one work request a post.

use std::hint::black_box;

use field::{Api, DEPTH, Held, LEN, Work};
use ibverbs::{CompletionQueue, Context, MemoryRegion, ProtectionDomain, QueuePair};
use ibverbs::{ibv_qp_type, ibv_wc};

struct Form {
    qp: QueuePair<'static>,
    cq: &'static CompletionQueue<'static>,
    mr: MemoryRegion<u8>,
    completions: [ibv_wc; 16],
}

impl Form {
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
        note: "SEND and receive only",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

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
    let mr = pd.allocate(LEN).expect("a region");
    field::run(Form { qp, cq, mr, completions: [ibv_wc::default(); 16] });
}
