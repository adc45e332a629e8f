//! The crate `sideway`: batches through guards, over `ibv_post_send` (basic) or `ibv_wr_*`
//! (extended).

use std::hint::black_box;
use std::sync::Arc;

use field::{
    Api, BATCH, DEPTH, Done, Held, LEN, PAYLOAD, REMOTE_ADDR, REMOTE_KEY, ROUNDS, Work, length,
};
use sideway::ibverbs::AccessFlags;
use sideway::ibverbs::address::AddressHandleAttribute;
use sideway::ibverbs::completion::{
    BasicCompletionQueue, ExtendedCompletionQueue, WorkCompletionOperationType,
    WorkCompletionStatus,
};
use sideway::ibverbs::device::DeviceList;
use sideway::ibverbs::device_context::Mtu;
use sideway::ibverbs::memory_region::MemoryRegion;
use sideway::ibverbs::protection_domain::ProtectionDomain;
use sideway::ibverbs::queue_pair::*;

struct Form<Q, C> {
    qp: Q,
    cq: Arc<C>,
    /// One buffer behind the other; a wr_id is the number of one.
    mr: Arc<MemoryRegion>,
}

const FLAGS: WorkRequestFlags = WorkRequestFlags::Signaled;
/// As completions have them, in numbers.
const SUCCESS: u32 = WorkCompletionStatus::Success as u32;
const RECEIVED: u32 = WorkCompletionOperationType::Receive as u32;

const HELD: Held = Held {
    lifetime: "unsafe",
    range: "unsafe",
    transport: "device",
    state: "device",
    overrun: "nobody",
    refused: "nobody",
    note: "an empty batch posts from a dangling address",
};

macro_rules! form {
    ($qp:ident, $cq:ident, $name:literal, $held:expr) => {
        impl Form<$qp, $cq> {
            /// The wr_id of the one completion that is there.
            #[inline(always)]
            fn completed(&self) -> Done<u64> {
                let wc = self.cq.start_poll()?.next().ok_or("no completion")?;
                if wc.status() != SUCCESS {
                    return Err("failed".into());
                }
                Ok(wc.wr_id())
            }

            #[inline(always)]
            fn writes(&mut self, length: impl Fn(usize) -> usize) -> Done {
                let (lkey, base) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let mut id = 0;
                for round in 0..ROUNDS {
                    let mut guard = self.qp.start_post_send();
                    let wr = guard.construct_wr(id, FLAGS).setup_write(REMOTE_KEY, REMOTE_ADDR);
                    // SAFETY: the region lives as long as the process.
                    unsafe { wr.setup_sge(lkey, base + id * LEN as u64, length(round) as u32) };
                    guard.post()?;
                    id = self.completed()?;
                }
                Ok(())
            }

            #[inline(always)]
            fn chains(&mut self) -> Done {
                let (lkey, base) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                for _ in 0..ROUNDS {
                    let mut guard = self.qp.start_post_send();
                    for id in 0..4 {
                        let flags = if id < 3 { WorkRequestFlags::none() } else { FLAGS };
                        let wr = guard.construct_wr(id, flags).setup_write(REMOTE_KEY, REMOTE_ADDR);
                        // SAFETY: the region lives as long as the process.
                        unsafe { wr.setup_sge(lkey, base + id * LEN as u64, LEN as u32) };
                    }
                    guard.post()?;
                    self.completed()?;
                }
                Ok(())
            }

            #[inline(always)]
            fn inlines(&mut self) -> Done {
                for _ in 0..ROUNDS {
                    let mut guard = self.qp.start_post_send();
                    guard.construct_wr(0, FLAGS).setup_send().setup_inline_data(&PAYLOAD);
                    guard.post()?;
                    self.completed()?;
                }
                Ok(())
            }

            #[inline(always)]
            fn receive(&mut self, id: u64) -> Done {
                let (lkey, base) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let mut guard = self.qp.start_post_recv();
                let wr = guard.construct_wr(id);
                // SAFETY: the region lives as long as the process.
                unsafe { wr.setup_sge(lkey, base + id * LEN as u64, LEN as u32) };
                Ok(guard.post()?)
            }

            #[inline(always)]
            fn answers(&mut self, items: usize) -> Done {
                let (lkey, base) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let cq = self.cq.clone();
                let mut done = 0;
                while done < items {
                    for wc in cq.start_poll()?.take(BATCH) {
                        if wc.status() != SUCCESS {
                            return Err("failed".into());
                        }
                        let id = wc.wr_id();
                        if wc.opcode() == RECEIVED {
                            let mut guard = self.qp.start_post_send();
                            let wr = guard.construct_wr(id, FLAGS).setup_send();
                            // SAFETY: the region lives as long as the process.
                            unsafe { wr.setup_sge(lkey, base + id * LEN as u64, wc.byte_len()) };
                            guard.post()?;
                        } else {
                            self.receive(id)?;
                        }
                        done += 1;
                    }
                }
                Ok(())
            }
        }

        impl Api for Form<$qp, $cq> {
            const CRATE: &'static str = "sideway";
            const FORM: &'static str = $name;
            const HELD: Held = $held;
            const OFFERS: &'static [Work] = &[
                Work::Post,
                Work::Chain4,
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
                let (lkey, addr) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let mut guard = self.qp.start_post_send();
                let wr = guard.construct_wr(1, FLAGS).setup_write(REMOTE_KEY, REMOTE_ADDR);
                // SAFETY: the region lives as long as the process.
                unsafe { wr.setup_sge(lkey, addr, LEN as u32) };
                guard.post().is_ok()
            }

            #[inline(always)]
            fn chain4(&mut self) -> bool {
                let (lkey, addr) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let mut guard = self.qp.start_post_send();
                for i in 0..4 {
                    let wr = guard.construct_wr(i, FLAGS).setup_write(REMOTE_KEY, REMOTE_ADDR);
                    // SAFETY: the region lives as long as the process.
                    unsafe { wr.setup_sge(lkey, addr, LEN as u32) };
                }
                guard.post().is_ok()
            }

            #[inline(always)]
            fn recv(&mut self) -> bool {
                let (lkey, addr) = (self.mr.lkey(), self.mr.get_ptr() as u64);
                let mut guard = self.qp.start_post_recv();
                let wr = guard.construct_wr(1);
                // SAFETY: the region lives as long as the process.
                unsafe { wr.setup_sge(lkey, addr, LEN as u32) };
                guard.post().is_ok()
            }

            #[inline(always)]
            fn poll1(&mut self) -> bool {
                let Ok(mut poller) = self.cq.start_poll() else { return false };
                let Some(wc) = poller.next() else { return false };
                black_box(wc.wr_id());
                wc.status() == 0
            }

            #[inline(always)]
            fn poll16(&mut self) -> bool {
                let Ok(poller) = self.cq.start_poll() else { return false };
                poller.take(16).all(|wc| {
                    black_box(wc.wr_id());
                    wc.status() == 0
                })
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
                (0..n as u64).all(|id| self.receive(id).is_ok())
            }
        }
    };
}

form!(BasicQueuePair, BasicCompletionQueue, "basic", HELD);
form!(
    ExtendedQueuePair,
    ExtendedCompletionQueue,
    "extended",
    Held { note: "the provider builds each work request, in calls of its own", ..HELD }
);

fn main() {
    let devices = DeviceList::new().expect("a list");
    let context = devices.get(0).expect("a device").open().expect("a context");
    let pd = context.alloc_pd().expect("a domain");
    let mut cq = context.create_cq_builder();
    cq.setup_cqe(DEPTH);

    let basic = cq.build().expect("a completion queue");
    let mut qp = builder(&pd);
    qp.setup_send_cq(basic.clone()).setup_recv_cq(basic.clone());
    let mut qp = qp.build().expect("a queue pair");
    connect(&mut qp);
    field::run(Form { qp, cq: basic, mr: region(&pd) });

    let extended = cq.build_ex().expect("a completion queue");
    let mut qp = builder(&pd);
    qp.setup_send_cq(extended.clone()).setup_recv_cq(extended.clone());
    qp.setup_send_ops_flags(SendOperationFlags::Write | SendOperationFlags::Send);
    let mut qp = qp.build_ex().expect("a queue pair");
    connect(&mut qp);
    field::run(Form { qp, cq: extended, mr: region(&pd) });
}

fn builder(pd: &Arc<ProtectionDomain>) -> QueuePairBuilder {
    let mut builder = pd.create_qp_builder();
    builder.setup_max_send_wr(DEPTH).setup_max_recv_wr(DEPTH);
    builder.setup_max_inline_data(PAYLOAD.len() as u32);
    builder
}

fn connect(qp: &mut impl QueuePair) {
    let mut init = QueuePairAttribute::new();
    init.setup_state(QueuePairState::Init).setup_pkey_index(0).setup_port(1);
    init.setup_access_flags(AccessFlags::LocalWrite);
    qp.modify(&init).expect("INIT");
    let mut address = AddressHandleAttribute::new();
    address.setup_dest_lid(1).setup_port(1);
    let mut rtr = QueuePairAttribute::new();
    rtr.setup_state(QueuePairState::ReadyToReceive).setup_path_mtu(Mtu::Mtu1024);
    rtr.setup_dest_qp_num(qp.qp_number()).setup_rq_psn(7).setup_max_dest_read_atomic(1);
    rtr.setup_min_rnr_timer(12).setup_address_vector(&address);
    qp.modify(&rtr).expect("RTR");
    let mut rts = QueuePairAttribute::new();
    rts.setup_state(QueuePairState::ReadyToSend).setup_sq_psn(7).setup_timeout(14);
    rts.setup_retry_cnt(6).setup_rnr_retry(7).setup_max_read_atomic(1);
    qp.modify(&rts).expect("RTS");
}

fn region(pd: &Arc<ProtectionDomain>) -> Arc<MemoryRegion> {
    let data: &'static mut [u8] = Box::leak(Box::new([0; BATCH * LEN]));
    // SAFETY: leaked, so that it lives as long as the process.
    let mr = unsafe { pd.reg_mr(data.as_mut_ptr() as usize, data.len(), AccessFlags::LocalWrite) };
    mr.expect("a region")
}
