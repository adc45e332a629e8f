//! The crate `rdma-io`: its verbs layer, below the async transports.

use std::hint::black_box;
use std::sync::Arc;

use field::{
    Api, BATCH, DEPTH, DEVICE, Done, Held, LEN, PAYLOAD, REMOTE_ADDR, REMOTE_KEY, ROUNDS, Work,
    length,
};
use rdma_io::cq::CompletionQueue;
use rdma_io::device::open_device_by_name;
use rdma_io::mr::{AccessFlags, OwnedMemoryRegion};
use rdma_io::qp::{QpInitAttr, QueuePair};
use rdma_io::wc::{WcOpcode, WorkCompletion};
use rdma_io::wr::{RecvWr, SendFlags, SendWr, Sge, WrOpcode};

struct Form {
    qp: QueuePair,
    cq: Arc<CompletionQueue>,
    /// One buffer behind the other; a wr_id is the number of one.
    mr: OwnedMemoryRegion,
    completions: [WorkCompletion; BATCH],
}

impl Form {
    #[inline(always)]
    fn sge(&self) -> Sge {
        self.sge_of(0, LEN)
    }

    #[inline(always)]
    fn sge_of(&self, id: u64, length: usize) -> Sge {
        Sge::new(self.mr.addr() + id * LEN as u64, length as u32, self.mr.lkey())
    }

    /// The wr_id of the one completion that is there.
    #[inline(always)]
    fn completed(&mut self) -> Done<u64> {
        let n = self.cq.poll(&mut self.completions[..1])?;
        let wc = self.completions[..n].first().filter(|wc| wc.is_success()).ok_or("no success")?;
        Ok(wc.wr_id())
    }

    #[inline(always)]
    fn writes(&mut self, length: impl Fn(usize) -> usize) -> Done {
        let mut id = 0;
        for round in 0..ROUNDS {
            let sge = self.sge_of(id, length(round));
            let wr = SendWr::new(id, WrOpcode::RdmaWrite).flags(SendFlags::SIGNALED).sg(sge);
            self.qp.post_send(&mut wr.rdma(REMOTE_ADDR, REMOTE_KEY))?;
            id = self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            let sge = Sge::new(PAYLOAD.as_ptr() as u64, PAYLOAD.len() as u32, 0);
            let flags = SendFlags::SIGNALED | SendFlags::INLINE;
            let wr = SendWr::new(0, WrOpcode::Send).flags(flags);
            self.qp.post_send(&mut wr.sg(sge))?;
            self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            let n = self.cq.poll(&mut self.completions)?;
            for wc in &self.completions[..n] {
                if !wc.is_success() {
                    return Err("failed".into());
                }
                let id = wc.wr_id();
                if wc.opcode() == WcOpcode::Recv {
                    let wr = SendWr::new(id, WrOpcode::Send).flags(SendFlags::SIGNALED);
                    let sge = self.sge_of(id, wc.byte_len() as usize);
                    self.qp.post_send(&mut wr.sg(sge))?;
                } else {
                    let sge = self.sge_of(id, LEN);
                    self.qp.post_recv(&mut RecvWr::new(id).sg(sge))?;
                }
                done += 1;
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn poll(&mut self, n: usize) -> bool {
        let Ok(n) = self.cq.poll(&mut self.completions[..n]) else { return false };
        self.completions[..n].iter().all(|wc| {
            black_box(wc.wr_id());
            wc.is_success()
        })
    }
}

impl Api for Form {
    const CRATE: &'static str = "rdma-io";
    const FORM: &'static str = "QueuePair";
    const HELD: Held = Held {
        lifetime: "nobody",
        range: "device",
        transport: "device",
        state: "device",
        overrun: "nobody",
        refused: "run",
        note: "an element is made of any three numbers, safely; one work request a post",
    };
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Recv,
        Work::Poll1,
        Work::Poll16,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Inline,
        Work::Echo,
        Work::Echo8,
    ];

    #[inline(always)]
    fn post(&mut self) -> bool {
        let wr = SendWr::new(1, WrOpcode::RdmaWrite).flags(SendFlags::SIGNALED);
        self.qp.post_send(&mut wr.sg(self.sge()).rdma(REMOTE_ADDR, REMOTE_KEY)).is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        self.qp.post_recv(&mut RecvWr::new(1).sg(self.sge())).is_ok()
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
    fn inline(&mut self) -> bool {
        self.inlines().is_ok()
    }

    #[inline(always)]
    fn echoes(&mut self, items: usize) -> bool {
        self.answers(items).is_ok()
    }

    fn receive_before(&mut self, n: usize) -> bool {
        let mut ids = 0..n as u64;
        ids.all(|id| self.qp.post_recv(&mut RecvWr::new(id).sg(self.sge_of(id, LEN))).is_ok())
    }
}

fn main() {
    let context = Arc::new(open_device_by_name(DEVICE).expect("a context"));
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(DEPTH as i32).expect("a completion queue");
    let attr = QpInitAttr {
        max_send_wr: DEPTH,
        max_recv_wr: DEPTH,
        max_inline_data: PAYLOAD.len() as u32,
        sq_sig_all: false,
        ..Default::default()
    };
    let qp = pd.create_qp(&cq, &cq, &attr).expect("a queue pair");
    let gid = context.query_gid(1, 0).expect("a GID");
    qp.to_init(1, 0, 0).expect("INIT");
    qp.to_rtr(qp.qp_num(), 7, &gid, 1).expect("RTR");
    qp.to_rts(7).expect("RTS");
    let mr = pd.reg_mr_owned(vec![0; BATCH * LEN], AccessFlags::LOCAL_WRITE).expect("a region");
    field::run(Form { qp, cq, mr, completions: [WorkCompletion::default(); BATCH] });
}
