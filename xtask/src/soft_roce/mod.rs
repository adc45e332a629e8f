//! A real RDMA device on a machine without one: Soft-RoCE (rdma_rxe) in a guest. The guest's root
//! is the host's root, read-only, with a tmpfs over it. It runs the programs that were just built
//! here, with the host's libibverbs. Everything that it writes is discarded, except below
//! $PROVERBS_GUEST_OUT, which is the same directory in both. (virtme-ng does much of this, but
//! under emulation it takes longer to the first command, and it cannot connect two hosts with a
//! cable.)

mod accel;
mod console;
mod device;
mod guest;
mod initramfs;
mod kernel;
mod library;
mod pair;
mod qemu;
mod run_dir;
mod siw;
mod watch;

use std::ffi::{OsStr, OsString};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

use anyhow::Result;

use crate::progress::Step;
use crate::setup::{self, Group};
use crate::{Outcome, paths};
use accel::Accel;
use qemu::Machine;
use run_dir::RunDir;

pub use guest::out_dir;
pub use kernel::{Kernel, NAMED};
pub use library::{Library, newest_headers};
pub use pair::run as run_pair;
pub use siw::Driver;
pub use watch::KernelCrash;

/// The position of a guest that has a peer.
struct Place {
    /// 1 or 2; its address is 10.77.0.1 or 10.77.0.2.
    host: u8,
    /// Its end of the cable.
    end: UnixStream,
}

#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    guest: Guest,
    /// The command to run, and its arguments.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// The guest to run a command in.
#[derive(Clone, Debug, clap::Args)]
pub struct Guest {
    /// The guest's memory.
    #[arg(long = "memory", value_name = "MB", default_value_t = Guest::default().memory_mb)]
    pub memory_mb: u32,
    /// Two NUMA nodes, with 16 huge pages of 2 MiB and one of 1 GiB on each; at least 6 GB of
    /// memory.
    #[arg(long)]
    pub numa: bool,
    /// The guest's kernel: the newest with this name.
    #[arg(long, value_name = "NAME", default_value = NAMED[0])]
    pub kernel: String,
    /// The rdma-core that the guest's programs are linked with.
    #[arg(long, default_value = "host")]
    pub library: Library,
    /// The driver of the guest's RDMA device.
    #[arg(long, default_value = "rxe")]
    pub driver: Driver,
}

impl Default for Guest {
    fn default() -> Self {
        Self {
            memory_mb: 2048,
            numa: false,
            kernel: NAMED[0].to_owned(),
            library: Library::Host,
            driver: Driver::Rxe,
        }
    }
}

impl Guest {
    /// With two NUMA nodes, each with huge pages of both sizes.
    pub fn with_nodes(self) -> Self {
        Self { numa: true, ..self }
    }

    /// The host needs only the memory that the guest uses.
    fn memory(&self) -> u32 {
        if self.numa { self.memory_mb.max(6144) } else { self.memory_mb }
    }
}

pub fn main(args: Args) -> Outcome {
    let code = run(&args.guest, &args.command)?;
    // Exit codes have eight bits.
    Ok(ExitCode::from(u8::try_from(code & 0xff)?))
}

/// Boots a guest, runs the command there in the caller's directory with its output on ours, powers
/// off, and returns the command's exit code. An error means that the guest failed, not the command.
///
/// Several commands in one boot: `["sh", "-c", script]`. Call it from the main thread: QEMU dies
/// with the thread that started it. A guest that fails before it runs the command is booted again:
/// KVM may not work here, and on a busy host the emulated timers are sometimes too late for the
/// kernel.
pub fn run<S: AsRef<OsStr>>(guest: &Guest, command: &[S]) -> Result<i32> {
    twice(|| run_once(guest, command, None))
}

/// `boot`, and again if it did not boot.
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
    let command: Vec<&OsStr> = command.iter().map(AsRef::as_ref).collect();
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
    guest::write(&dir.share, &kernel, siw.as_deref(), &out, &command, host)?;
    initramfs::write(&kernel, &dir.initramfs)?;
    let accel = Accel::best(&parent);

    let (image, console) = (&kernel.image, &dir.live_console);
    let mut machine = Machine::new(accel, guest.memory(), image, &dir.initramfs, console);
    if guest.numa {
        machine.nodes(guest.memory());
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
    let streams = [machine.port("stdout")?, machine.port("stderr")?];
    let boot = Step::start(format!("Booting Linux {} ({accel:?})", kernel.release));
    let ended = watch::to_the_end(machine, accel, &dir, streams, boot);
    if ended.as_ref().is_err_and(|error| error.is::<watch::NotBooted>()) {
        accel.failed(&parent);
    }
    let code = ended?;
    if code == 127 {
        eprintln!(
            "note: the guest runs the host's programs, so it lacks everything that is not installed here"
        );
    }
    Ok(code)
}

/// Runs a command on this machine, with its own RDMA device.
pub fn on_device<S: AsRef<OsStr>>(device: &str, command: &[S]) -> Result<i32> {
    device::run(device, command)
}

/// The default kernel of a guest, fetched if necessary.
pub fn kernel() -> Result<Kernel> {
    kernel::ensure(NAMED[0])
}
