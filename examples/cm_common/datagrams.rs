//! One side of an exchange of datagrams, which contain their queue pair number as immediate data.

use std::time::{Duration, Instant};

use proverbs::cm::{CmId, HasDevice, Udp};
use proverbs::completion::{GRH_LEN, UdReceived};
use proverbs::device::Gid;
use proverbs::prelude::*;

use super::Result;

/// A queue pair and its objects.
pub struct Datagrams {
    pub qp: QueuePair<Ud, Rts>,
    cq: CompletionQueue,
    pd: ProtectionDomain,
    sends: Pool,
    port: u8,
    gid_index: u8,
    sent: u32,
    arrived: u32,
    /// The address of the sender of the last message.
    pub back: Option<(AddressVector, Qpn)>,
}

impl Datagrams {
    /// Sends and receives `count` messages of `size` bytes.
    pub fn new<S: HasDevice>(id: &CmId<Udp, S>, count: u32, size: usize) -> Result<Datagrams> {
        let (context, pd) = (id.context()?, id.pd()?);
        let cq = context.create_cq(2 * count + 2)?;
        let receives = pd.create_pool(count as usize, GRH_LEN + size)?;
        let sends = pd.create_pool(count as usize, size)?;
        let depth = Depth { send: count, recv: count };
        let mut qp = id.create_qp::<DefaultProfile>(&pd, &cq, &cq, depth)?;
        while let Some(buf) = receives.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let port = id.port();
        let gid_index = gid_index(&context, port)?;
        Ok(Datagrams { qp, cq, pd, sends, port, gid_index, sent: 0, arrived: 0, back: None })
    }

    pub fn destination(
        &mut self,
        vector: AddressVector,
        qpn: Qpn,
        qkey: Qkey,
    ) -> Result<wr::Destination> {
        let ah = self.pd.create_ah(vector)?;
        Ok(wr::Destination { address_handle: self.qp.add_address_handle(ah)?, qpn, qkey })
    }

    /// Posts all messages. The immediate data is the queue pair number.
    pub fn send(&mut self, to: wr::Destination, count: u32, size: usize) -> Result<()> {
        let number = self.qp.qp_num();
        for i in 0..count {
            let mut buf = self.sends.take().ok_or("all buffers are in use")?;
            buf.copy_from(&vec![i as u8; size])?;
            self.qp.post_send(wr::SendWithImm::new(buf, number).to(to))?;
        }
        Ok(())
    }

    /// Polls until `sent` messages were sent and `arrived` have arrived, but at most for
    /// `patience`.
    pub fn wait(&mut self, sent: u32, arrived: u32, size: usize, patience: Duration) -> Result<()> {
        let began = Instant::now();
        while (self.sent, self.arrived) != (sent, arrived) {
            for completion in self.cq.poll()? {
                match completion.outcome() {
                    Outcome::Sent(_) => self.sent += 1,
                    Outcome::Datagram(datagram) => {
                        self.arrived += 1;
                        check(&datagram, size)?;
                        let vector = datagram.reply_vector(self.port, self.gid_index);
                        self.back = vector.map(|vector| (vector, datagram.src_qp));
                    }
                    Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                    _ => return Err("an unexpected completion".into()),
                }
            }
            if began.elapsed() > patience {
                let (s, a, time) = (self.sent, self.arrived, patience.as_secs());
                let why = format!("{s} of {sent} sent and {a} of {arrived} arrived in {time} s");
                return Err(why.into());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    pub fn close(mut self) -> Result<()> {
        let mut qp = self.qp.to_error()?;
        qp.drain(&mut self.cq, |_| {})?;
        qp.destroy()?;
        Ok(())
    }
}

/// Compares the sender's number in the completion with the one in the immediate data.
fn check(datagram: &UdReceived<Buf>, size: usize) -> Result<()> {
    let (bytes, imm, qpn) = (datagram.payload().len(), datagram.imm_data, datagram.src_qp.get());
    if bytes == size && imm == Some(qpn) {
        return Ok(());
    }
    Err(format!("{bytes} bytes from queue pair {qpn}, with the immediate data {imm:?}").into())
}

/// The port's RoCE v2 GID with an IPv4 address. rdma_cm sends from this GID, so replies must use it
/// too.
fn gid_index(context: &Context, port: u8) -> Result<u8> {
    let is_ipv4 = |gid: Gid| gid.0[..10] == [0; 10] && gid.0[10..12] == [0xff; 2];
    let found = (0..=255).rev().find(|&index| context.query_gid(port, index).is_ok_and(is_ipv4));
    // On InfiniBand the first GID identifies the port.
    Ok(found.unwrap_or(0))
}
