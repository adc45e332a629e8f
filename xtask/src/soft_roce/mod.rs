//! A real RDMA device on a machine that has none: Soft-RoCE (rdma_rxe) in a guest.
//!
//! The guest's root is the host's, read only, with a tmpfs over it: it runs what was just built
//! here, against the host's own libibverbs, and whatever it writes is gone afterwards, except below
//! $PROVERBS_GUEST_OUT, which is one directory in both. (virtme-ng does much of this, and takes
//! longer to the first command under emulation; two hosts on one cable and a clock of instructions
//! it has not.)

mod accel;
mod console;
mod device;
mod guest;
mod headers;
mod initramfs;
mod kernel;
mod library;
mod pair;
mod qemu;
mod run_dir;
mod siw;
mod vmlinux;
mod watch;

use std::ffi::{OsStr, OsString};
use std::io::{IsTerminal, stdin};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::progress::Step;
use crate::setup::{self, Group};
use crate::{Outcome, deadline, paths};
pub use accel::Accel;
use guest::Job;
use qemu::Machine;
use run_dir::RunDir;

pub use guest::out_dir;
pub use headers::newest as newest_headers;
pub use kernel::{Kernel, NAMED};
pub use library::Library;
pub use pair::run as run_pair;
pub use siw::Driver;
pub use watch::KernelCrash;

/// Where a guest stands that is not alone.
struct Place {
    /// 1 or 2; its address is 10.77.0.1 or 10.77.0.2.
    host: u8,
    /// Its end of the cable.
    end: UnixStream,
}

#[derive(clap::Args)]
pub struct Args {
    /// Run the command on this machine, with this RDMA device, instead of in a guest.
    #[arg(long, value_name = "NAME")]
    device: Option<String>,
    /// The guest's memory.
    #[arg(long, value_name = "MB", default_value_t = Guest::default().memory_mb)]
    memory: u32,
    /// Two NUMA nodes, with 16 huge pages of 2 MiB and one of 1 GiB on each; at least 6 GB of
    /// memory.
    #[arg(long)]
    numa: bool,
    /// When to stop the guest; without, a command may take what is left of the run (two hours by
    /// hand), and a shell any time.
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,
    /// The guest's kernel: the newest of this name.
    #[arg(long, value_name = "NAME", default_value = NAMED[0])]
    kernel: String,
    /// The rdma-core that the guest's programs are linked with.
    #[arg(long, default_value = "host")]
    library: Library,
    /// What drives the guest's RDMA device.
    #[arg(long, default_value = "rxe")]
    driver: Driver,
    /// How to run the guest, instead of finding out.
    #[arg(long)]
    accel: Option<Accel>,
    /// What to run, and its arguments; without, a shell.
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The guest to run a command in.
#[derive(Clone, Debug)]
pub struct Guest {
    pub memory_mb: u32,
    /// Two NUMA nodes with huge pages: see [`Guest::with_nodes`].
    pub numa: bool,
    /// From its start to its power-off.
    pub timeout: Duration,
    /// None: whatever works here.
    pub accel: Option<Accel>,
    /// One of [`NAMED`], or another.
    pub kernel: String,
    pub library: Library,
    pub driver: Driver,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            memory_mb: 2048,
            numa: false,
            timeout: deadline::left(),
            accel: None,
            kernel: NAMED[0].to_owned(),
            library: Library::Host,
            driver: Driver::Rxe,
        }
    }
}

impl Guest {
    /// With two NUMA nodes, and huge pages of both sizes on each. (What the guest does not touch of
    /// its memory the host does not have to have.)
    pub fn with_nodes(self) -> Self {
        Self { numa: true, memory_mb: self.memory_mb.max(6144), ..self }
    }
}

pub fn main(args: Args) -> Outcome {
    let code = match &args.device {
        Some(device) => device::run(device, &args.command)?,
        None => {
            let mut guest = Guest {
                memory_mb: args.memory,
                accel: args.accel,
                kernel: args.kernel,
                library: args.library,
                driver: args.driver,
                ..Guest::default()
            };
            if args.numa {
                guest = guest.with_nodes();
            }
            if let Some(seconds) = args.timeout {
                guest.timeout = Duration::from_secs(seconds);
            } else if args.command.is_empty() {
                guest.timeout = Duration::MAX;
            }
            run(&guest, &args.command)?
        }
    };
    // An exit code has eight bits everywhere.
    Ok(ExitCode::from(u8::try_from(code & 0xff)?))
}

/// Boots a guest, runs the command there in the caller's directory with its output on ours, powers
/// off, and returns the command's exit code. An error means that the guest failed, not the command.
///
/// Without a command, a shell on our terminal. Several commands in one boot:
/// `["sh", "-c", script]`. Call it from the main thread: QEMU dies with the thread that started it.
///
/// A guest that fails before it runs the command is booted once more: on a busy host the emulated
/// timers sometimes come too late for the kernel.
pub fn run<S: AsRef<OsStr>>(guest: &Guest, command: &[S]) -> Result<i32> {
    twice(|| run_once(guest, command, None))
}

/// `boot`, and once more if it did not boot.
fn twice<T>(boot: impl Fn() -> Result<T>) -> Result<T> {
    match boot() {
        Err(error) if error.is::<watch::NotBooted>() => {
            eprintln!("{error:#}\nBooting once more.");
            boot()
        }
        result => result,
    }
}

fn run_once<S: AsRef<OsStr>>(guest: &Guest, command: &[S], place: Option<Place>) -> Result<i32> {
    let job = match command {
        [] if stdin().is_terminal() => Job::Shell,
        [] => bail!("{}", guest::NO_COMMAND),
        words => Job::Command(words.iter().map(AsRef::as_ref).collect()),
    };
    setup::ensure(&[Group::Guest])?;
    let kernel = kernel::ensure(&guest.kernel)?;
    let out = guest::out_dir()?;
    let host = place.as_ref().map(|place| place.host);
    let parent = paths::below_target("soft-roce")?;
    let dir = RunDir::new(&parent, host)?;
    let siw = match guest.driver {
        Driver::Rxe => None,
        Driver::Siw => Some(siw::module(&kernel)?),
    };
    guest::write(&dir.share, &kernel, siw.as_deref(), &out, &job, host)?;
    initramfs::write(&kernel, &dir.initramfs)?;
    let accel = match guest.accel {
        Some(accel) => accel,
        None => Accel::best(&kernel.image, &dir.initramfs, &parent)?,
    };

    let mut machine = Machine::new(accel, guest.memory_mb, &kernel.image, &dir.initramfs)?;
    if guest.numa {
        machine.nodes(accel, guest.memory_mb);
    }
    machine.share("host", "/".as_ref(), false);
    if guest.library == Library::Newest {
        machine.over(&library::newest()?);
    }
    machine.share("share", &dir.share, true);
    machine.share("out", &out, true);
    if let Some(Place { host, end }) = place {
        machine.cable(end, host);
    }
    let streams = match job {
        Job::Shell => {
            machine.terminal();
            None
        }
        Job::Command(_) => Some((machine.port("stdout")?, machine.port("stderr")?)),
    };
    let boot = Step::start(format!("Booting Linux {} ({})", kernel.release, accel.name()));
    let code = watch::to_the_end(machine, &dir, guest.timeout, streams, boot)?;
    if code == 127 {
        eprintln!(
            "note: the guest runs the host's programs; what is not installed here it has not"
        );
    }
    Ok(code)
}

/// Runs a command on this machine, with an RDMA device of its own.
pub fn on_device<S: AsRef<OsStr>>(device: &str, command: &[S]) -> Result<i32> {
    device::run(device, command)
}

/// The kernel that a guest runs if nobody says otherwise, fetched if need be.
pub fn kernel() -> Result<Kernel> {
    kernel::ensure(NAMED[0])
}
