//! The crate `rdma-io`: its verbs layer, below the async transports.

use std::hint::black_box;
use std::sync::Arc;

use field::{Api, DEPTH, DEVICE, Held, LEN, REMOTE_ADDR, REMOTE_KEY, Work};
use rdma_io::cq::CompletionQueue;
use rdma_io::device::open_device_by_name;
use rdma_io::mr::{AccessFlags, OwnedMemoryRegion};
use rdma_io::qp::{QpInitAttr, QueuePair};
use rdma_io::wc::WorkCompletion;
use rdma_io::wr::{RecvWr, SendFlags, SendWr, Sge, WrOpcode};

struct Form {
    qp: QueuePair,
    cq: Arc<CompletionQueue>,
    mr: OwnedMemoryRegion,
    completions: [WorkCompletion; 16],
}

impl Form {
    #[inline(always)]
    fn sge(&self) -> Sge {
        Sge::new(self.mr.addr(), LEN as u32, self.mr.lkey())
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
        note: "an element is made of any three numbers, safely",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

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
}

fn main() {
    let context = Arc::new(open_device_by_name(DEVICE).expect("a context"));
    let pd = context.alloc_pd().expect("a domain");
    let cq = context.create_cq(DEPTH as i32).expect("a completion queue");
    let attr = QpInitAttr {
        max_send_wr: DEPTH,
        max_recv_wr: DEPTH,
        sq_sig_all: false,
        ..Default::default()
    };
    let qp = pd.create_qp(&cq, &cq, &attr).expect("a queue pair");
    let gid = context.query_gid(1, 0).expect("a GID");
    qp.to_init(1, 0, 0).expect("INIT");
    qp.to_rtr(qp.qp_num(), 7, &gid, 1).expect("RTR");
    qp.to_rts(7).expect("RTS");
    let mr = pd.reg_mr_owned(vec![0; LEN], AccessFlags::LOCAL_WRITE).expect("a region");
    field::run(Form { qp, cq, mr, completions: [WorkCompletion::default(); 16] });
}
