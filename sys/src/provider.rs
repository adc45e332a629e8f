//! The driver of a device, as the kernel reports it.

// No model: the version of the running kernel is read once, by the first thread that needs it.

use std::ffi::{c_int, c_ulong};
use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use super::types::ibv_context;

/// The provider of a device: its driver in the kernel and the matching part of libibverbs.
/// `Context::provider` returns it.
///
/// Some guarantees of this crate rest on promises that providers make. `docs/providers.md` lists
/// these promises and which providers keep them. The crate is stricter with a provider that breaks
/// a promise, or that is not in the list:
///
/// - Queue pairs with [`Selective`] signaling are rejected.
/// - A region with remote rights does not release its memory. `MemoryRegion::destroy` fails, and
///   the memory of a dropped region is not reused. On Soft-RoCE this happens only if the
///   deregistration took long, or if Linux is older than 6.0.
///
/// [`Selective`]: https://docs.rs/proverbs/latest/proverbs/qp/struct.Selective.html
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Provider {
    /// This crate's software device.
    Loopback,
    /// Linux's Soft-RoCE.
    Rxe,
    /// Linux's software iWARP.
    Siw,
    /// NVIDIA ConnectX-4 and later, and Connect-IB.
    Mlx5,
    /// NVIDIA ConnectX-3.
    Mlx4,
    /// Intel E800 and X722.
    Irdma,
    /// Amazon's Elastic Fabric Adapter.
    Efa,
    /// Broadcom NetXtreme.
    BnxtRe,
    /// Another provider, or the kernel did not report it.
    Unknown,
}

impl Provider {
    /// The name of the kernel's driver, or "an unknown provider".
    pub fn name(self) -> &'static str {
        match self {
            Provider::Loopback => "loopback",
            Provider::Rxe => "rxe",
            Provider::Siw => "siw",
            Provider::Mlx5 => "mlx5",
            Provider::Mlx4 => "mlx4",
            Provider::Irdma => "irdma",
            Provider::Efa => "efa",
            Provider::BnxtRe => "bnxt_re",
            Provider::Unknown => "an unknown provider",
        }
    }

    /// Whether the completion of a send ends all access to the buffers of the unsignaled sends
    /// before it.
    pub fn covers_unsignaled(self) -> bool {
        !matches!(self, Provider::Siw | Provider::Efa | Provider::Unknown)
    }

    /// Whether the completions of a send queue come in the order of its work requests.
    pub fn completes_in_order(self) -> bool {
        !matches!(self, Provider::Siw | Provider::Efa | Provider::Unknown)
    }

    /// Whether `ibv_query_qp` reports if a queue pair was created with `sq_sig_all`. The other
    /// kernel drivers do not fill the field.
    pub fn tells_signaling(self) -> bool {
        use Provider::{BnxtRe, Efa, Irdma, Siw, Unknown};
        !matches!(self, Siw | Irdma | Efa | BnxtRe | Unknown)
    }

    /// Whether no request from a peer accesses memory after `ibv_dereg_mr` returned 0. On Soft-RoCE
    /// this holds only if the call was [short](Self::gives_up_after).
    pub fn ends_access_at_dereg(self) -> bool {
        match self {
            Provider::Siw | Provider::Unknown => false,
            Provider::Rxe => rxe_waits(),
            _ => true,
        }
    }

    /// If `ibv_dereg_mr` took this long, it may have given up waiting for a peer's request,
    /// although it returned 0.
    pub fn gives_up_after(self) -> Option<Duration> {
        // Kernels give up after 200 ticks or after 50 s. A second has at most 1,000 ticks, and the
        // first tick may be partial.
        (self == Provider::Rxe).then_some(Duration::from_millis(150))
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether this kernel's `rxe_dereg_mr` waits for peers' requests that use the region.
fn rxe_waits() -> bool {
    static WAITS: OnceLock<bool> = OnceLock::new();
    *WAITS.get_or_init(|| {
        let release = std::fs::read_to_string("/proc/sys/kernel/osrelease");
        release.is_ok_and(|release| waits(&release))
    })
}

/// Linux 6.0 and later wait. Vendors may have backported the change; such kernels are not
/// recognised.
fn waits(release: &str) -> bool {
    let major = release.split('.').next().and_then(|major| major.parse::<u32>().ok());
    major.is_some_and(|major| major >= 6)
}

/// `enum rdma_driver_id` of the kernel's ABI.
const DRIVERS: [(u32, Provider); 7] = [
    (1, Provider::Mlx5),
    (2, Provider::Mlx4),
    (6, Provider::BnxtRe),
    (9, Provider::Irdma),
    (14, Provider::Rxe),
    (17, Provider::Efa),
    (18, Provider::Siw),
];

/// A driver that does not exist.
const NO_DRIVER: u32 = u32::MAX;

/// `struct ib_uverbs_ioctl_hdr`, without attributes.
#[repr(C)]
struct Header {
    length: u16,
    object_id: u16,
    method_id: u16,
    num_attrs: u16,
    reserved1: u64,
    driver_id: u32,
    reserved2: u32,
}

/// `RDMA_VERBS_IOCTL`: `_IOWR(0x1b, 1, struct ib_uverbs_ioctl_hdr)`.
const VERBS_IOCTL: c_ulong = 3 << 30 | (size_of::<Header>() as c_ulong) << 16 | 0x1b << 8 | 1;

/// The provider of an open device.
///
/// # Safety
/// `context` is live and belongs to libibverbs.
pub(crate) unsafe fn provider(context: *mut ibv_context) -> Provider {
    // SAFETY: the context is live (this function's contract), and the field never changes.
    let fd = unsafe { (*context).cmd_fd };
    of_answers(|driver_id| ask(fd, driver_id))
}

/// Finds the provider from the kernel's answers. Each request names a driver, and a method that no
/// kernel has. A kernel checks the driver first: EINVAL means that the device has another driver,
/// EPROTONOSUPPORT that the method is missing. The requests use the open device's descriptor, so
/// renaming a device does not matter.
fn of_answers(ask: impl Fn(u32) -> c_int) -> Provider {
    // If this is not rejected, the answers mean nothing.
    if ask(NO_DRIVER) != libc::EINVAL {
        return Provider::Unknown;
    }
    let is_its = |&&(driver_id, _): &&(u32, Provider)| ask(driver_id) == libc::EPROTONOSUPPORT;
    DRIVERS.iter().find(is_its).map_or(Provider::Unknown, |&(_, provider)| provider)
}

/// The errno of a request that names this driver.
fn ask(fd: c_int, driver_id: u32) -> c_int {
    let mut header = Header {
        length: size_of::<Header>() as u16,
        object_id: u16::MAX,
        method_id: u16::MAX,
        num_attrs: 0,
        reserved1: 0,
        driver_id,
        reserved2: 0,
    };
    // SAFETY: the header is readable and writable, and the kernel touches no more than its
    // `length`. On a descriptor that is not a device, the request number is unknown.
    match unsafe { libc::ioctl(fd, VERBS_IOCTL as _, &raw mut header) } {
        0 => 0,
        _ => super::control::errno(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel_with(driver: u32) -> Provider {
        of_answers(|asked| match asked == driver {
            true => libc::EPROTONOSUPPORT,
            false => libc::EINVAL,
        })
    }

    /// Only rxe gives up, after at least 150 ms.
    #[test]
    fn only_rxe_gives_up() {
        let limit = |provider: Provider| provider.gives_up_after().map(|time| time.as_millis());
        assert_eq!(limit(Provider::Rxe), Some(150));
        assert_eq!([Provider::Siw, Provider::Unknown].map(limit), [None; 2]);
    }

    #[test]
    fn each_driver_is_recognised_by_its_number() {
        for (driver, provider) in DRIVERS {
            assert_eq!(kernel_with(driver), provider);
        }
        // RDMA_DRIVER_UNKNOWN, RDMA_DRIVER_CXGB4, and one that does not exist yet.
        assert_eq!([0, 4, 99].map(kernel_with), [Provider::Unknown; 3]);
    }

    /// If a kernel gives the same answer for every driver, the provider is unknown.
    #[test]
    fn equal_answers_for_all_drivers_mean_unknown() {
        for errno in [0, libc::EPROTONOSUPPORT, libc::ENOTTY, libc::EBADF, libc::EIO] {
            assert_eq!(of_answers(|_| errno), Provider::Unknown);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "asks the kernel")]
    fn a_descriptor_without_a_device_has_no_provider() {
        assert_eq!([ask(-1, 1), size_of::<Header>() as c_int], [libc::EBADF, 24]);
        let null = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&null);
        assert_eq!(of_answers(|driver| ask(fd, driver)), Provider::Unknown);
    }

    #[test]
    fn soft_roce_waits_since_linux_6() {
        let releases = ["6.0.0", "6.1.0-9-amd64", "7.3.1-rc2", "10.0"];
        assert_eq!(releases.map(waits), [true; 4]);
        let releases = ["5.19.17", "5.14.0-427.el9.x86_64", "4.18.0", "2.6.60", "", "six"];
        assert_eq!(releases.map(waits), [false; 6]);
    }

    #[test]
    fn an_unlisted_provider_gets_the_strict_form() {
        let strict = |provider: Provider| {
            let keeps = [provider.covers_unsignaled(), provider.ends_access_at_dereg()];
            keeps == [false; 2] && !provider.tells_signaling()
        };
        assert!(strict(Provider::Unknown) && strict(Provider::Siw));
        assert!(!strict(Provider::Mlx5) && !strict(Provider::Loopback));
        assert!(Provider::Rxe.tells_signaling());
    }
}
