//! KVM or emulation. That /dev/kvm is there says little: inside other virtual machines a guest may
//! hang or QEMU may abort. So KVM is tried until a guest under it does not boot, once for every
//! boot of the host.

use std::fs::{self, OpenOptions};
use std::path::Path;

/// How the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accel {
    /// By the processor.
    Kvm,
    /// By QEMU: works everywhere, slowly.
    Tcg,
}

impl Accel {
    pub fn arguments(self) -> &'static str {
        match self {
            Self::Kvm => "-accel kvm -cpu host",
            Self::Tcg => "-accel tcg,thread=multi -cpu max",
        }
    }

    /// The best that works here, as far as `dir` knows.
    pub fn best(dir: &Path) -> Self {
        let is_there = OpenOptions::new().read(true).write(true).open("/dev/kvm").is_ok();
        let failed = fs::read_to_string(dir.join(FAILED)).is_ok_and(|boot| boot == boot_id());
        if is_there && !failed { Self::Kvm } else { Self::Tcg }
    }

    /// A guest under this did not boot. Emulation is the last resort.
    pub fn failed(self, dir: &Path) {
        if self == Self::Kvm {
            eprintln!("KVM does not work here: emulating until the next boot of this machine");
            // Without the file the next guest tries once more.
            let _ = fs::write(dir.join(FAILED), boot_id());
        }
    }
}

/// The boot of this machine at which KVM failed last.
const FAILED: &str = "kvm-failed";

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
