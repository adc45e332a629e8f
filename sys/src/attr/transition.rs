//! The attributes of a transition in C form, and their mask.

use crate::attr::address::AddressVector;
use crate::attr::qp::{AlternatePath, Migration, QpAccess, QpQkey};
use crate::terms::bounded::{
    MinRnrTimer, Mtu, Psn, Qpn, ResponderDepth, RetryCount, RnrRetry, Timeout,
};
use crate::terms::depth::InitiatorDepth;
use crate::terms::state::QpState;
use crate::types::{ibv_qp_attr, ibv_qp_attr_mask as Mask, zeroed};

/// `ibv_qp_attr` and its mask, set together.
pub struct Attr {
    pub c: ibv_qp_attr,
    pub mask: u32,
    pub address: Option<AddressVector>,
    pub alternate: Option<AlternatePath>,
}

impl Attr {
    pub fn new(to: QpState) -> Self {
        let c = ibv_qp_attr { qp_state: to.to_c(), ..zeroed() };
        Attr { c, mask: Mask::IBV_QP_STATE.0, address: None, alternate: None }
    }

    /// The queue pair's port after the transition. An address contains it too (R8.4). `before` is
    /// the port before the transition.
    pub fn port_or(&mut self, before: u8) -> u8 {
        let is_set = self.mask & Mask::IBV_QP_PORT.0 != 0;
        let port = if is_set { self.c.port_num } else { before };
        self.c.ah_attr.port_num = port;
        port
    }

    pub fn address(&mut self, address: impl Into<Option<AddressVector>>) {
        if let Some(vector) = address.into() {
            self.c.ah_attr = vector.to_c();
            self.mask |= Mask::IBV_QP_AV.0;
            self.address = Some(vector);
        }
    }

    pub fn alternate(&mut self, alternate: impl Into<Option<AlternatePath>>) {
        self.alternate = alternate.into();
        if let Some(AlternatePath { address, pkey_index, timeout }) = self.alternate {
            self.c.alt_ah_attr = address.to_c();
            self.c.alt_port_num = address.port;
            self.c.alt_pkey_index = pkey_index;
            self.c.alt_timeout = timeout.to_c();
            self.mask |= Mask::IBV_QP_ALT_PATH.0;
        }
    }

    pub fn max_rd_atomic(&mut self, depth: impl MaybeDepth) {
        if let Some(depth) = depth.get() {
            self.c.max_rd_atomic = depth;
            self.mask |= Mask::IBV_QP_MAX_QP_RD_ATOMIC.0;
        }
    }

    pub fn notify(&mut self, notify: bool) {
        if notify {
            self.c.en_sqd_async_notify = notify.into();
            self.mask |= Mask::IBV_QP_EN_SQD_ASYNC_NOTIFY.0;
        }
    }

    pub fn optional(&mut self, attributes: impl Fill) {
        attributes.fill(self);
    }

    pub fn is_of_two_paths(&self) -> bool {
        self.mask & (Mask::IBV_QP_ALT_PATH.0 | Mask::IBV_QP_PATH_MIG_STATE.0) != 0
    }
}

/// An initiator depth, or `None` if it is optional.
pub trait MaybeDepth {
    fn get(self) -> Option<u8>;
}

impl<D: InitiatorDepth> MaybeDepth for D {
    fn get(self) -> Option<u8> {
        Some(self.to_c())
    }
}

impl<D: InitiatorDepth> MaybeDepth for Option<D> {
    fn get(self) -> Option<u8> {
        self.map(D::to_c)
    }
}

/// One setter for each plain attribute, required (`T`) or optional (`Option<T>`).
macro_rules! setters {
    ($($name:ident: $t:ty, $mask:ident, |$c:ident, $v:ident| $set:expr;)*) => {
        impl Attr {
            $(pub fn $name(&mut self, value: impl Into<Option<$t>>) {
                if let Some($v) = value.into() {
                    let $c = &mut self.c;
                    $set;
                    self.mask |= Mask::$mask.0;
                }
            })*
        }
    };
}

setters! {
    pkey_index: u16, IBV_QP_PKEY_INDEX, |c, v| c.pkey_index = v;
    port: u8, IBV_QP_PORT, |c, v| c.port_num = v;
    access: QpAccess, IBV_QP_ACCESS_FLAGS, |c, v| c.qp_access_flags = v.bits();
    qkey: QpQkey, IBV_QP_QKEY, |c, v| c.qkey = v.get();
    path_mtu: Mtu, IBV_QP_PATH_MTU, |c, v| c.path_mtu = v.to_c();
    dest_qpn: Qpn, IBV_QP_DEST_QPN, |c, v| c.dest_qp_num = v.get();
    rq_psn: Psn, IBV_QP_RQ_PSN, |c, v| c.rq_psn = v.get();
    sq_psn: Psn, IBV_QP_SQ_PSN, |c, v| c.sq_psn = v.get();
    max_dest_rd_atomic: ResponderDepth, IBV_QP_MAX_DEST_RD_ATOMIC,
        |c, v| c.max_dest_rd_atomic = v.get();
    min_rnr_timer: MinRnrTimer, IBV_QP_MIN_RNR_TIMER,
        |c, v| c.min_rnr_timer = v.get();
    timeout: Timeout, IBV_QP_TIMEOUT, |c, v| c.timeout = v.to_c();
    retry_cnt: RetryCount, IBV_QP_RETRY_CNT, |c, v| c.retry_cnt = v.get();
    rnr_retry: RnrRetry, IBV_QP_RNR_RETRY, |c, v| c.rnr_retry = v.to_c();
    migration: Migration, IBV_QP_PATH_MIG_STATE, |c, v| c.path_mig_state = v.to_c();
}

/// A struct of attributes, which sets its attributes in `Attr`.
pub trait Fill {
    fn fill(&self, attr: &mut Attr);
}
