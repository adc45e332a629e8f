//! UD: datagrams, and the 40 bytes before their payload.

use crate::engine::responder::Arrival;
use crate::engine::sends::{Fate, Outcome};
use crate::objects::cq::Cqe;
use crate::objects::qp::Qp;
use crate::state::State;
use crate::words::address::{Address, Gid};
use crate::words::transport::Transport;
use crate::words::world::Link;
use crate::words::wr::{Message, Op, Send};
use proverbs_sys::types::{ibv_wc_opcode as opcode, ibv_wc_status as status};

const HEADER: usize = 40;

/// This bit in a send's Q_Key means the sender's own key (R5.7).
const OWN_KEY: u32 = 1 << 31;
impl State {
    /// A datagram that can be sent succeeds, whether it arrives or not (R5.10).
    pub(crate) fn send_datagram(&mut self, number: u32, wr: &Send) -> Outcome {
        let Some(qp) = self.qps.get(&number) else { return Outcome::Stuck };
        let Op::Datagram { ah, qpn, qkey } = wr.op else {
            return Outcome::Failed(status::IBV_WC_LOC_QP_OP_ERR);
        };
        // The address handle is looked up now, not when the send was posted (R5.3).
        let address = match self.ahs.get(&ah) {
            Some(ah) if ah.pd == qp.pd => {
                Address { slid: self.source_lid(qp.device, &ah.address), ..ah.address }
            }
            _ => return Outcome::Failed(status::IBV_WC_LOC_QP_OP_ERR),
        };
        let length = wr.payload.length();
        if length > self.world.mtu.bytes().into() {
            return Outcome::Failed(status::IBV_WC_LOC_LEN_ERR);
        }
        let data = self.payload(qp.pd, &wr.payload);
        let may = self.sends_pages(number, &wr.op, &wr.payload);
        let Some(data) = data.filter(|_| may) else {
            return Outcome::Failed(status::IBV_WC_LOC_PROT_ERR);
        };
        let qkey = if qkey & OWN_KEY != 0 { qp.attributes.qkey } else { qkey };
        // Without a global route no GID is used.
        let sgid =
            if address.is_global { self.source(qp.device, &address) } else { Ok(Gid::default()) };
        if let Ok(sgid) = sgid {
            let message = Message::of(wr, data);
            match self.fate(&message) {
                Fate::Late(due) => {
                    self.delay(due, number, qpn, &message, Some((qkey, address, sgid)));
                }
                Fate::Lost => {}
                Fate::Twice => {
                    self.arrive(number, qpn, qkey, &address, sgid, &message);
                    self.arrive(number, qpn, qkey, &address, sgid, &message);
                }
                Fate::Arrives | Fate::NotReady => {
                    self.arrive(number, qpn, qkey, &address, sgid, &message);
                }
            }
        }
        Outcome::Done { length: length as u32 }
    }

    pub(crate) fn arrive(
        &mut self,
        from: u32,
        to: u32,
        qkey: u32,
        address: &Address,
        sgid: Gid,
        message: &Message,
    ) {
        let blocks = self.qps.get(&from).is_some_and(|qp| qp.blocks_loopback);
        for to in self.receivers(to, address) {
            if blocks && to == from && address.is_to_a_group() {
                continue;
            }
            self.arrive_at(from, to, qkey, address, sgid, message);
        }
    }

    fn arrive_at(
        &mut self,
        from: u32,
        to: u32,
        qkey: u32,
        address: &Address,
        sgid: Gid,
        message: &Message,
    ) {
        let is_there = |qp: &&Qp| qp.shape.transport == Transport::Ud && qp.receives();
        let Some(qp) = self.qps.get(&to).filter(is_there) else { return };
        if qp.attributes.qkey != qkey {
            let count = self.qkey_violations.entry(qp.device).or_default();
            *count = count.saturating_add(1);
            return;
        }
        let mut data = self.header(address, sgid, message).to_vec();
        data.extend_from_slice(&message.data);
        let says = Cqe {
            byte_len: data.len() as u32,
            opcode: opcode::IBV_WC_RECV,
            extra: message.extra,
            src_qp: from,
            grh: address.is_global,
            sl: address.sl,
            slid: address.slid,
            path_bits: self.path_bits(address),
            ..Cqe::default()
        };
        let arrival = Arrival { data: &data, solicited: message.solicited, says };
        // The sender is not notified of a datagram that is not received.
        let _ = self.receive(to, &arrival);
    }

    /// The 40 bytes before a payload: the IPv6 header of RoCE v2, or 20 undefined bytes and its
    /// IPv4 header; on InfiniBand the GRH, or 40 undefined bytes.
    fn header(&mut self, address: &Address, sgid: Gid, message: &Message) -> [u8; HEADER] {
        const V4: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];
        if !address.is_global {
            return self.habits.meaningless();
        }
        if sgid.starts_with(&V4) && address.dgid.starts_with(&V4) {
            return ipv4(address, sgid, length(message, UDP), self.habits.meaningless());
        }
        match self.world.link {
            Link::InfiniBand => ipv6(address, sgid, length(message, 0), 0x1b),
            Link::Ipv4 | Link::Ipv6 | Link::Iwarp => ipv6(address, sgid, length(message, UDP), 17),
        }
    }
}

/// The length of a UDP header.
const UDP: usize = 8;

/// The length of everything after the IP header: UDP header, BTH, DETH, immediate, payload padded
/// to words, and ICRC.
fn length(message: &Message, udp: usize) -> u16 {
    (udp + 12 + 8 + message.extra.length() + message.data.len().next_multiple_of(4) + 4) as u16
}

fn hops(address: &Address) -> u8 {
    if address.hop_limit == 0 { 64 } else { address.hop_limit }
}

fn ipv4(address: &Address, sgid: Gid, length: u16, before: [u8; HEADER]) -> [u8; HEADER] {
    let mut bytes = before;
    let ip = &mut bytes[20..];
    ip.fill(0);
    ip[0] = 0x45;
    ip[1] = address.traffic_class;
    ip[2..4].copy_from_slice(&(20 + length).to_be_bytes());
    ip[6] = 0x40; // do not fragment
    ip[8] = hops(address);
    ip[9] = 17; // UDP
    ip[12..16].copy_from_slice(&sgid[12..]);
    ip[16..20].copy_from_slice(&address.dgid[12..]);
    let sum = checksum(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn ipv6(address: &Address, sgid: Gid, length: u16, next_header: u8) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let class = u32::from(address.traffic_class) << 20;
    let first = 6 << 28 | class | address.flow_label & 0xf_ffff;
    bytes[..4].copy_from_slice(&first.to_be_bytes());
    bytes[4..6].copy_from_slice(&length.to_be_bytes());
    bytes[6] = next_header;
    bytes[7] = hops(address);
    bytes[8..24].copy_from_slice(&sgid);
    bytes[24..].copy_from_slice(&address.dgid);
    bytes
}

fn checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]));
    let sum: u32 = words.sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16 + (sum >> 16) as u16)
}
