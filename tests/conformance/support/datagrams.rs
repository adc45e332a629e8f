//! UD queue pairs that have each other's addresses.

use proverbs::prelude::*;
use proverbs::state::State;

use super::device::Device;
use super::pair::{Bring, Wish};

pub const QKEY: u32 = 0x1111_2222;

impl<P: Profile> Bring<P> for Ud {
    fn init(qp: QueuePair<Self, Reset, P>, _: &Wish) -> QueuePair<Self, Init, P> {
        let qkey = Qkey::new(QKEY).unwrap().into();
        qp.modify(UdInit { pkey_index: 0, port: 1, qkey }).unwrap()
    }

    fn rtr(qp: QueuePair<Self, Init, P>, _: &Device, _: u32, _: &Wish) -> QueuePair<Self, Rtr, P> {
        qp.modify(UdRtr::default()).unwrap()
    }

    fn rts(qp: QueuePair<Self, Rtr, P>, wish: &Wish) -> QueuePair<Self, Rts, P> {
        qp.modify(UdRts { sq_psn: Psn::new(wish.psn).unwrap(), qkey: None }).unwrap()
    }
}

/// Address handles to other UD queue pairs of the same device.
pub trait Datagrams {
    /// Adds an address handle for its own device, with the destination `qpn`.
    fn way_to(&mut self, dev: &Device, pd: &ProtectionDomain, qpn: u32) -> wr::Destination;
}

impl<S: State, P: Profile> Datagrams for QueuePair<Ud, S, P> {
    fn way_to(&mut self, dev: &Device, pd: &ProtectionDomain, qpn: u32) -> wr::Destination {
        let ah = pd.create_ah(dev.vector()).unwrap();
        let address_handle = self.add_address_handle(ah).unwrap();
        let qpn = Qpn::new(qpn).unwrap();
        wr::Destination { address_handle, qpn, qkey: Qkey::new(QKEY).unwrap() }
    }
}
