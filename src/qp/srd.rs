//! The creation of SRD queue pairs: the verb, its flags, and why it fails.

use crate::profile::Profile;
use crate::sys::device::name_of;
use crate::sys::handle;
use crate::sys::session::send_ops::RDMA_WRITE;
use crate::sys::srd::INLINE_WRITE;
use crate::work::limits::Limit;

pub(super) const VERB: &str = "efadv_create_qp_ex";

/// The creation flags for the device. Inline data must be enabled if WRITEs may use it.
pub(super) fn flags<P: Profile>(send_ops: u64) -> u16 {
    let writes_inline = send_ops & RDMA_WRITE != 0 && P::MaxInline::VALUE != 0;
    if writes_inline { INLINE_WRITE } else { 0 }
}

/// Explains why an SRD queue pair with these operations cannot be created.
pub(super) fn why(send_ops: u64, errno: i32, context: &handle::Context) -> String {
    let writes = match send_ops & RDMA_WRITE {
        0 => "",
        _ => ", and one without RDMA WRITE needs `posting: ExtendedPosting<Srd>`",
    };
    match errno {
        libc::ENOSYS => ": no installed libefa.so.1 supports it; install Debian's \
                         ibverbs-providers, or rdma-core 26 or newer"
            .into(),
        libc::EOPNOTSUPP => format!(
            ": {} does not support SRD, or not all of these operations. SRD needs an EFA; one \
             without RDMA READ needs a profile with `NoReads`{writes}",
            name_of(context)
        ),
        _ => String::new(),
    }
}
