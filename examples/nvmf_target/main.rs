//! An NVMe over Fabrics target on RDMA: one subsystem with one namespace, in a file or in memory.
//! Linux's NVMe host and the example `nvmf_host` connect to it.
//!
//! ```text
//! nvmf_target -a 10.77.0.1                 # the target, on the address of an RDMA network device
//!
//! modprobe nvme-rdma                       # the host, as root, with nvme-cli ...
//! nvme connect -t rdma -a 10.77.0.1 -s 4420 -n nqn.2026-01.example:proverbs
//! echo transport=rdma,traddr=10.77.0.1,trsvcid=4420,nqn=nqn.2026-01.example:proverbs \
//!     >/dev/nvme-fabrics                   # ... or without it
//! ```
//! A host sends a command of 64 bytes, with the location of its data. Data of a small write may
//! follow the command in the same message, the capsule; it is written to the namespace from there.
//! Other data is in the host's memory, at an address with a key. The target reads it with RDMA READ
//! or writes it with RDMA WRITE, and sends a completion of 16 bytes. A host may request that the
//! completion also invalidate the key. Then it is sent as a SEND_WITH_INV.
//!
//! | file | contents |
//! |---|---|
//! | `wire` | byte layouts of commands, completions, and the private data of connections |
//! | `target` | accepts connections, and executes the commands of each on its own thread |
//! | `queue` | an RDMA connection that carries one submission queue and its completion queue |
//! | `controller` | commands: Fabrics, admin, and I/O |
//! | `identify` | the data structures of Identify |
//! Each queue executes one command at a time. There is no discovery service, authentication, or
//! events: asynchronous event requests stay pending.

#![forbid(unsafe_code)]

#[path = "../patience/mod.rs"]
mod patience;
mod target;
#[path = "../nvmf_common/wire.rs"]
mod wire;

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use bpaf::Bpaf;
use proverbs::cm::{CmId, Tcp};
use proverbs::memory::MapOptions;

use target::{Target, serve};
use wire::{IS_NQN, NQN, Result, is_nqn};

/// An NVMe over RDMA target with one namespace
#[derive(Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of this machine to listen on
    #[bpaf(short, long, argument("ADDRESS"), fallback(Ipv4Addr::UNSPECIFIED.into()), display_fallback)]
    address: IpAddr,
    /// Port to listen on
    #[bpaf(short, long, argument("PORT"), fallback(4420), display_fallback)]
    port: u16,
    /// NVMe qualified name of the subsystem
    #[bpaf(short, long, argument("NQN"), fallback(NQN.into()), display_fallback, guard(is_nqn, IS_NQN))]
    nqn: String,
    /// File with the namespace, created if it does not exist [default: in memory]
    #[bpaf(short, long, argument("PATH"))]
    file: Option<PathBuf>,
    /// Size of a new namespace in MiB
    #[bpaf(short, long, argument("MIB"), fallback(64), display_fallback)]
    size: u16,
    #[bpaf(external(target::config))]
    config: target::Config,
}

fn main() -> ExitCode {
    match run(options().run()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("nvmf_target: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<()> {
    let bytes = u64::from(options.size) << 20;
    let disk = match &options.file {
        None => MapOptions::new().memfd("namespace", bytes as usize)?.1.into(),
        Some(path) => {
            File::options().read(true).write(true).create(true).truncate(false).open(path)?
        }
    };
    if disk.metadata()?.len() == 0 {
        disk.set_len(bytes)?;
    }
    let bytes = disk.metadata()?.len();
    let target = Arc::new(Target::new(&options.nqn, disk)?);
    let id = CmId::<Tcp, _>::new()?.bind_addr((options.address, options.port).into())?;
    // The maximum backlog on Linux.
    let listening = id.listen(1024)?;
    println!("nvmf_target: {} on port {}, {bytes} bytes", options.nqn, options.port);
    serve(&listening, &target, options.config)
}
