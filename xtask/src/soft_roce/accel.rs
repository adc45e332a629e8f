//! KVM or emulation. That /dev/kvm is there says little: inside other virtual machines a guest may
//! hang or QEMU may abort. So a guest is booted to its first line, once for every boot of the host.

use std::fs::{self, OpenOptions};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::ValueEnum;

use super::console::Console;
use super::qemu::Machine;
use crate::progress::Step;

const PROBE_TIME: Duration = Duration::from_secs(10);

/// How the guest's instructions are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Accel {
    /// By the processor.
    Kvm,
    /// By QEMU: works everywhere, slowly.
    Tcg,
    /// By QEMU, whose clock counts instructions: slower, but what takes how long repeats, whatever
    /// the host does.
    Counted,
}

impl Accel {
    pub fn arguments(self) -> &'static str {
        match self {
            Self::Kvm => "-smp 2 -accel kvm -cpu host",
            Self::Tcg => "-smp 2 -accel tcg,thread=multi -cpu max",
            Self::Counted => "-smp 1 -accel tcg,thread=single -cpu max -icount shift=0,sleep=off",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Kvm => "KVM",
            Self::Tcg => "emulated",
            Self::Counted => "emulated, on a clock of instructions",
        }
    }

    /// The best that works here. `dir` keeps the answer, and the probe's logs.
    pub fn best(image: &Path, initramfs: &Path, dir: &Path) -> Result<Self> {
        if OpenOptions::new().read(true).write(true).open("/dev/kvm").is_err() {
            return Ok(Self::Tcg);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let answer = dir.join("kvm-probe");
        let known = fs::read_to_string(&answer).unwrap_or_default();
        if let Some(word) = known.strip_prefix(&boot) {
            return Ok(if word == "works" { Self::Kvm } else { Self::Tcg });
        }
        let step = Step::start("Trying KVM");
        let works = boots(image, initramfs, dir)?;
        fs::write(&answer, boot + if works { "works" } else { "fails" })?;
        step.done(if works { "KVM works here" } else { "KVM does not work here: emulating" });
        Ok(if works { Self::Kvm } else { Self::Tcg })
    }
}

/// Whether a guest under KVM gets as far as our init within the time.
fn boots(image: &Path, initramfs: &Path, dir: &Path) -> Result<bool> {
    let machine = Machine::new(Accel::Kvm, 512, image, initramfs)?;
    let mut running = machine.start("soft_roce.probe", &dir.join("kvm-probe.log"))?;
    let console = Console::follow(running.console()?, &dir.join("kvm-probe-console.log"))?;
    let start = Instant::now();
    while start.elapsed() < PROBE_TIME && running.exited()?.is_none() {
        if !console.state().stage.is_empty() {
            return Ok(true);
        }
        sleep(Duration::from_millis(20));
    }
    drop(running);
    // It may have said its line and powered off between two looks.
    let (state, _) = console.finish();
    Ok(!state.stage.is_empty())
}
