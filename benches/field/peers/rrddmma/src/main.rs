//! The crate `rrddmma`: its queue pair, one work request a post, and its work requests that are
//! linked into chains.

use std::hint::black_box;

use field::{
    Api, BATCH, DEPTH, DEVICE, Done, Held, LEN, PAYLOAD, REMOTE_ADDR, REMOTE_KEY, ROUNDS, Work,
    length,
};
use rrddmma::prelude::*;
use rrddmma::wrap::RegisteredMem;

struct Form {
    qp: Qp,
    /// One buffer behind the other; a wr_id is the number of one.
    mem: RegisteredMem,
    payload: RegisteredMem,
    remote: MrRemote,
    completions: [Wc; BATCH],
}

impl Form {
    #[inline(always)]
    fn slice(&self, id: u64, length: usize) -> Done<MrSlice<'_>> {
        Ok(self.mem.slice(id as usize * LEN, length).ok_or("no such buffer")?)
    }

    /// The first buffer.
    #[inline(always)]
    fn buffer(&self) -> MrSlice<'_> {
        // SAFETY: the region has more bytes.
        unsafe { self.mem.slice_unchecked(0, LEN) }
    }

    /// The wr_id of the one completion that is there.
    #[inline(always)]
    fn completed(&mut self) -> Done<u64> {
        let wc = &mut self.completions[0];
        let n = self.qp.scq().poll_one_into(wc)?;
        if n == 0 {
            return Err("no completion".into());
        }
        wc.ok()?;
        Ok(wc.wr_id())
    }

    #[inline(always)]
    fn writes(&mut self, length: impl Fn(usize) -> usize) -> Done {
        let mut id = 0;
        for round in 0..ROUNDS {
            let slice = self.slice(id, length(round))?;
            self.qp.write(&[slice], &self.remote, id, None, true)?;
            id = self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn chains(&mut self) -> Done {
        for _ in 0..ROUNDS {
            let mut wrs = [send_wr::<1>(), send_wr(), send_wr(), send_wr()];
            for (id, wr) in wrs.iter_mut().enumerate() {
                wr.set_id(id as u64).set_sge(0, &self.slice(id as u64, LEN)?);
                wr.set_wr_write(self.remote, None);
            }
            let [first, second, third, last] = &mut wrs;
            third.set_next(last.set_flag_signaled());
            second.set_next(third);
            first.set_next(second);
            first.post_on(&self.qp)?;
            self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn inlines(&mut self) -> Done {
        for _ in 0..ROUNDS {
            self.qp.send(&[self.payload.as_slice()], None, None, 0, true, true)?;
            self.completed()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn answers(&mut self, items: usize) -> Done {
        let mut done = 0;
        while done < items {
            let n = self.qp.scq().poll_into(&mut self.completions)?;
            for wc in &self.completions[..n as usize] {
                let (id, length) = (wc.wr_id(), wc.ok()?);
                if wc.opcode() == WcOpcode::Recv {
                    let slice = self.slice(id, length)?;
                    self.qp.send(&[slice], None, None, id, true, false)?;
                } else {
                    self.qp.recv(&[self.slice(id, LEN)?], id)?;
                }
                done += 1;
            }
        }
        Ok(())
    }

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
        note: "the wrong transport panics; a chain is linked by safe calls that keep no borrow",
    };
    const OFFERS: &'static [Work] = &[
        Work::Post,
        Work::Recv,
        Work::Poll1,
        Work::Poll16,
        Work::Cycle,
        Work::Loop,
        Work::Length,
        Work::Chain,
        Work::Inline,
        Work::Echo,
        Work::Echo8,
    ];

    #[inline(always)]
    fn post(&mut self) -> bool {
        self.qp.write(&[self.buffer()], &self.remote, 1, None, true).is_ok()
    }

    #[inline(always)]
    fn recv(&mut self) -> bool {
        self.qp.recv(&[self.buffer()], 1).is_ok()
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
    fn chain(&mut self) -> bool {
        self.chains().is_ok()
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
        let receive = |id| Done::Ok(self.qp.recv(&[self.slice(id, LEN)?], id)?);
        (0..n as u64).all(|id| receive(id).is_ok())
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
    let mem = RegisteredMem::new(&pd, BATCH * LEN).expect("a region");
    let payload = RegisteredMem::new_with_content(&pd, &PAYLOAD).expect("a region");
    let remote = MrRemote::new(REMOTE_ADDR, LEN, REMOTE_KEY);
    let completions = std::array::from_fn(|_| Wc::default());
    field::run(Form { qp, mem, payload, remote, completions });
}
