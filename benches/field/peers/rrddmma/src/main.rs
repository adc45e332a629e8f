//! The crate `rrddmma`: its queue pair, one work request a post.

use std::hint::black_box;

use field::{Api, DEPTH, DEVICE, Held, LEN, REMOTE_ADDR, REMOTE_KEY, Work};
use rrddmma::prelude::*;
use rrddmma::wrap::RegisteredMem;

struct Form {
    qp: Qp,
    mem: RegisteredMem,
    remote: MrRemote,
    completions: [Wc; 16],
}

impl Form {
    #[inline(always)]
    fn poll(&mut self, n: usize) -> bool {
        let Ok(n) = self.qp.scq().poll_into(&mut self.completions[..n]) else { return false };
        self.completions[..n as usize].iter().all(|wc| {
            black_box(wc.wr_id());
            wc.status() == WcStatus::Success
        })
    }
}

impl Api for Form {
    const CRATE: &'static str = "rrddmma";
    const FORM: &'static str = "Qp";
    const HELD: Held = Held {
        lifetime: "nobody",
        range: "run",
        transport: "run",
        state: "device",
        overrun: "nobody",
        refused: "run",
        note: "the wrong transport panics",
    };
    const OFFERS: &'static [Work] =
        &[Work::Post, Work::Recv, Work::Poll1, Work::Poll16, Work::Cycle];

    #[inline(always)]
    fn post(&mut self) -> bool {
        self.qp.write(&[self.mem.as_slice()], &self.remote, 1, None, true).is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        self.qp.recv(&[self.mem.as_slice()], 1).is_ok()
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
    let Nic { context, ports } = Nic::finder().dev_name(DEVICE).probe().expect("a device");
    let pd = Pd::new(&context).expect("a domain");
    let cq = Cq::new(&context, DEPTH).expect("a completion queue");
    let builder = Qp::builder().qp_type(QpType::Rc).caps(QpCaps::default());
    let builder = builder.send_cq(&cq).recv_cq(&cq).sq_sig_all(false);
    let mut qp = builder.build(&pd).expect("a queue pair");
    qp.bind_local_port(&ports[0], None).expect("INIT");
    let endpoint = qp.endpoint().expect("an endpoint");
    qp.bind_peer(endpoint).expect("RTS");
    let mem = RegisteredMem::new(&pd, LEN).expect("a region");
    let remote = MrRemote::new(REMOTE_ADDR, LEN, REMOTE_KEY);
    field::run(Form { qp, mem, remote, completions: std::array::from_fn(|_| Wc::default()) });
}
