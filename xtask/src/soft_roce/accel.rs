//! KVM or emulation. The existence of /dev/kvm does not prove that KVM works: inside other virtual
//! machines a guest may hang or QEMU may abort. So KVM is used until a guest does not boot with it,
//! and tried again after each boot of the host.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// The way to execute the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// By the processor.
    Kvm,
    /// By QEMU, which works everywhere but is slow.
    Tcg,
}

impl Accel {
    pub fn arguments(self) -> &'static str {
        match self {
            Self::Kvm => "-accel kvm -cpu host",
            Self::Tcg => "-accel tcg,thread=multi -cpu max",
        }
    }

    /// The best way that works here, according to `dir`.
    pub fn best(dir: &Path) -> Self {
        let is_there = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        let failed = fs::read_to_string(dir.join(FAILED)).is_ok_and(|boot| boot == boot_id());
        if is_there && !failed { Self::Kvm } else { Self::Tcg }
    }

    /// Records that a guest did not boot with this. Emulation is the last resort.
    pub fn failed(self, dir: &Path) {
        if self == Self::Kvm {
            eprintln!("KVM does not work here: emulating until the next boot of this machine");
            // Without the file, the next guest tries again.
            let _ = fs::write(dir.join(FAILED), boot_id());
        }
    }
}

/// The boot of this machine at which KVM failed last.
const FAILED: &str = "kvm-failed";

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
