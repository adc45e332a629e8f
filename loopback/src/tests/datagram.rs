//! UD.

use super::*;

pub(super) struct Handle(*mut ibv_ah);

impl Handle {
    pub(super) fn new(from: &End, to: &End, gid: u8) -> Handle {
        let mut attr = from.address_of(to, gid);
        Handle(unsafe { (LOOPBACK.create_ah)(from.pd, &mut attr) }.unwrap().as_ptr())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        assert_eq!(unsafe { (LOOPBACK.destroy_ah)(self.0) }, Ok(()));
    }
}

pub(super) fn datagram(ah: &Handle, to: &End, qkey: u32, sge: ibv_sge) -> SendWr {
    SendWr { ud: Some((ah.0, to.number(), qkey)), ..SendWr::send(9, &[sge]) }
}

#[test]
fn a_datagram_follows_a_40_byte_header() {
    let (a, b) = pair(&UD);
    a.write(0, b"datagram");
    for gid in [0, 1] {
        let ah = Handle::new(&a, &b, gid);
        assert_eq!(b.post_recv(1, &[b.sge(0, 100)]), 0);
        // The sender's own key, by bit 31 (R5.7).
        assert_eq!(a.post_send(&datagram(&ah, &b, 1 << 31, a.sge(0, 8))), 0);
        let wc = b.wait();
        assert_eq!((wc.status, wc.byte_len, wc.src_qp), (0, 48, a.number()));
        assert_eq!(wc.wc_flags, ibv_wc_flags::IBV_WC_GRH.0);
        let header = b.read(0, 40);
        if gid == 0 {
            assert_eq!((header[0] >> 4, header[7]), (6, 3));
            assert_eq!(header[8..24], unsafe { a.gid(0).raw });
        } else {
            assert_eq!((header[20], header[28], header[29]), (0x45, 3, 17));
            assert_eq!(header[32..], [10, 0, 0, 1, 10, 0, 0, 2]);
            let words = header[20..].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1]));
            let sum: u32 = words.sum();
            assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum is right");
        }
        assert_eq!(b.read(40, 8), b"datagram");
        assert_eq!(a.polled(), [(9, 0)]);
    }
}

/// Proves R5.10, R10.10.
#[test]
fn an_undeliverable_datagram_is_lost_and_its_send_succeeds() {
    let (a, b) = pair(&UD);
    let ah = Handle::new(&a, &b, 1);
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 8))), 0, "no receive");
    assert_eq!(a.polled(), [(9, 0)]);
    assert_eq!(b.post_recv(1, &[b.sge(0, 47)]), 0);
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY + 1, a.sge(0, 7))), 0, "another key");
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 8))), 0, "too long");
    assert_eq!(a.polled(), [(9, 0), (9, 0)]);
    assert!(b.polled().is_empty());
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 7))), 0, "this one gets the receive");
    assert_eq!(b.polled(), [(1, 0)]);
}

#[test]
fn a_failed_send_stops_only_the_send_queue() {
    use ibv_wc_status::*;
    let (a, b) = pair(&UD);
    let ah = Handle::new(&a, &b, 1);
    assert_eq!(a.post_recv(1, &[a.sge(0, 64)]), 0);
    let long = datagram(&ah, &b, QKEY, a.sge(0, 4097));
    let next = datagram(&ah, &b, QKEY, a.sge(0, 8)).flags(0);
    assert_eq!(a.post_sends(&[long, next]), (0, None));
    assert_eq!(a.polled(), [(9, IBV_WC_LOC_LEN_ERR), (9, IBV_WC_WR_FLUSH_ERR)]);
    assert_eq!(a.state(), ibv_qp_state::IBV_QPS_SQE);
    let back = Handle::new(&b, &a, 1);
    assert_eq!(b.post_send(&datagram(&back, &a, QKEY, b.sge(0, 8))), 0);
    assert_eq!(a.polled(), [(1, 0)], "receives go on");
    assert_eq!(a.go(ibv_qp_state::IBV_QPS_RTS), 0);
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 8))), 0);
    assert_eq!(a.polled(), [(9, 0)]);
}

#[test]
fn addresses_are_checked() {
    let (a, b) = pair(&UD);
    let good = a.address_of(&b, 1);
    let create = |change: fn(&mut ibv_ah_attr)| {
        let mut attr = good;
        change(&mut attr);
        unsafe { (LOOPBACK.create_ah)(a.pd, &mut attr) }.err()
    };
    assert_eq!(create(|attr| attr.is_global = 0), Some(libc::EINVAL));
    assert_eq!(create(|attr| attr.port_num = 2), Some(libc::EINVAL));
    assert_eq!(create(|attr| attr.grh.sgid_index = 5), Some(libc::ENODATA));
    assert_eq!(create(|attr| attr.grh.sgid_index = 16), Some(libc::EINVAL));
    assert_eq!(create(|attr| attr.grh.dgid.raw = [0; 16]), Some(libc::EINVAL));
}

#[test]
fn an_srq_cannot_take_a_short_receive_back() {
    let (a, b) = pair(&Wish { srq: true, ..UD });
    let ah = Handle::new(&a, &b, 1);
    assert_eq!(b.post_recv(1, &[b.sge(0, 47)]), 0);
    assert_eq!(a.post_send(&datagram(&ah, &b, QKEY, a.sge(0, 8))), 0);
    assert_eq!(b.polled(), [(1, ibv_wc_status::IBV_WC_LOC_LEN_ERR)]);
    assert_eq!(b.state(), ibv_qp_state::IBV_QPS_RTS);
}
