//! An NVMe over Fabrics target on RDMA, to which Linux's NVMe host connects: one subsystem, one
//! namespace in memory.
//!
//! ```text
//! nvme_target -a 10.77.0.1                 # the target, on the address of an RDMA network device
//!
//! modprobe nvme-rdma                       # the host, as root, with nvme-cli ...
//! nvme connect -t rdma -a 10.77.0.1 -s 4420 -n nqn.2026-01.example:proverbs
//! echo transport=rdma,traddr=10.77.0.1,trsvcid=4420,nqn=nqn.2026-01.example:proverbs \
//!     >/dev/nvme-fabrics                   # ... or without it
//! ```
//! A host sends a command of 64 bytes, with the location of its data: address, length and key. The
//! target reads the data with RDMA READ or writes it with RDMA WRITE, and sends a completion of 16
//! bytes. A host may request that the completion also invalidate the key. Then it is sent as a
//! SEND_WITH_INV.
//!
//! | file | contents |
//! |---|---|
//! | `wire` | byte layouts of commands, completions, and the private data of connections |
//! | `queue` | an RDMA connection that carries one submission queue and its completion queue |
//! | `controller` | commands: Fabrics, admin, and I/O |
//! | `identify` | the data structures of Identify |
//! Each queue has a thread and executes one command at a time. There is no discovery service, data
//! in capsules, authentication, or events: asynchronous event requests stay pending. The layouts
//! come from the NVM Express Base, NVM Command Set and RDMA Transport specifications.

#![forbid(unsafe_code)]

#[path = "../cm_common/mod.rs"]
mod cm_common;
mod controller;
mod identify;
mod queue;
mod wire;

use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use bpaf::Bpaf;
use cm_common::{Result, listen, report};
use proverbs::cm::{Request, Tcp};

use controller::{Reply, Served, Target};
use queue::{Next, Queue};
use wire::{Command, Completion, Direction, KeyedSgl, RdmaRequest};

/// An NVMe over RDMA target with a namespace in memory
#[derive(Clone, Bpaf)]
#[bpaf(options, version)]
struct Options {
    /// Address of this machine to listen on [default: any]
    #[bpaf(short, long, argument("ADDRESS"))]
    address: Option<String>,
    /// Port to listen on
    #[bpaf(short, long, argument("PORT"), fallback(4420), display_fallback)]
    port: u16,
    /// NVMe qualified name of the subsystem
    #[bpaf(
        short, long, argument("NQN"), fallback(NQN.into()), display_fallback,
        guard(|nqn: &String| (1..=223).contains(&nqn.len()), "must have 1 to 223 bytes")
    )]
    nqn: String,
    /// Size of the namespace in MiB
    #[bpaf(
        short, long, argument("MIB"), fallback(64), display_fallback,
        guard(|n| (1..=65536).contains(n), "must be from 1 to 65536")
    )]
    size: u32,
    /// Print each command
    #[bpaf(short, long)]
    verbose: bool,
    /// How to reply to a command that requests the invalidation of its key; for tests of hosts
    ///
    /// as-asked: SEND_WITH_INV of the command's key [default];
    /// never: SEND, which leaves the key to the host;
    /// others-key: SEND_WITH_INV of the key of another command, if one is outstanding; it ends the
    /// connection
    #[bpaf(long, argument("HOW"), fallback(Invalidation::AsAsked))]
    invalidation: Invalidation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Invalidation {
    /// SEND_WITH_INV of the command's key
    AsAsked,
    /// SEND, which leaves the key to the host
    Never,
    /// SEND_WITH_INV of the key of another command, if one is outstanding; it ends the connection
    OthersKey,
}

impl FromStr for Invalidation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Invalidation, String> {
        match text {
            "as-asked" => Ok(Invalidation::AsAsked),
            "never" => Ok(Invalidation::Never),
            "others-key" => Ok(Invalidation::OthersKey),
            _ => Err("expected as-asked, never or others-key".into()),
        }
    }
}

/// The name of the subsystem, unless another is given.
const NQN: &str = "nqn.2026-01.example:proverbs";

fn main() -> ExitCode {
    report("nvme_target", run(&options().run()))
}

fn run(options: &Options) -> Result<()> {
    let target = Arc::new(Target::new(&options.nqn, (options.size as usize) << 20));
    let listening = listen::<Tcp>(options.address.as_deref(), options.port)?;
    println!("nvme_target: {} on port {}, {} MiB", options.nqn, options.port, options.size);
    loop {
        let (request, target) = (listening.get_request()?, Arc::clone(&target));
        let options = options.clone();
        thread::spawn(move || {
            // Other queues continue.
            if let Err(error) = serve(request, &target, &options) {
                eprintln!("nvme_target: {error}");
            }
        });
    }
}

/// One connection, from its request to its end.
fn serve(request: Request<Tcp>, target: &Arc<Target>, options: &Options) -> Result<()> {
    let asked = match RdmaRequest::parse(&request.private_data) {
        Ok(asked) => asked,
        Err(refusal) => {
            request.reject(&wire::rdma_reject(refusal))?;
            return Err(format!("rejected a connection: {refusal:?}").into());
        }
    };
    let RdmaRequest { qid, sq_size } = asked;
    let mut queue = Queue::accept(request, asked)?;
    println!("queue {qid}: accepted, {sq_size} entries");
    let mut served = Served::new(target, qid, sq_size);
    let ended = serve_queue(&mut queue, &mut served, options);
    let (commands, invalidated) = queue.counts();
    println!("queue {qid}: {commands} commands, {invalidated} answered by SEND_WITH_INV");
    let closed = queue.close();
    ended.and(closed).map_err(|error| format!("queue {qid}: {error}").into())
}

fn serve_queue(queue: &mut Queue, served: &mut Served, options: &Options) -> Result<()> {
    let mut heard = Instant::now();
    loop {
        let capsule = match queue.next(Duration::from_secs(1))? {
            Next::Capsule(capsule) => capsule,
            Next::Ended => return Ok(()),
            Next::Silence if served.is_over(heard.elapsed()) => {
                return Err("the host is silent for longer than its keep-alive time-out".into());
            }
            Next::Silence => continue,
        };
        heard = Instant::now();
        let command = Command::parse(&capsule);
        queue.take_more(capsule)?;
        serve_command(queue, served, &command?, options)?;
    }
}

fn serve_command(
    queue: &mut Queue,
    served: &mut Served,
    command: &Command,
    options: &Options,
) -> Result<()> {
    let head = served.next_head();
    let sgl = match command.direction() {
        Direction::None => Ok(KeyedSgl::default()),
        _ => KeyedSgl::parse(command, queue::MAX_TRANSFER),
    };
    let reply = match sgl {
        Ok(sgl) => {
            let mut data = queue.data(sgl.len)?;
            if command.direction() == Direction::ToTarget && sgl.len > 0 {
                data = queue.fetch(data, sgl)?;
            }
            let reply = served.execute(command, &mut data);
            let has_data = command.direction() == Direction::ToHost && sgl.len > 0;
            if has_data && matches!(reply, Ok(Reply::Done(_))) {
                queue.put(data, sgl)?;
            }
            reply
        }
        Err(status) => Err(status),
    };
    let (result, status) = match reply {
        Ok(Reply::Held) => return Ok(()),
        Ok(Reply::Done(result)) => (result, wire::SUCCESS),
        Err(status) => (0, status),
    };
    let completion = Completion { result, head, command: command.id(), status }.to_bytes();
    let key = sgl.ok().filter(|sgl| sgl.invalidate);
    let (key, is_wrong) = match (options.invalidation, key) {
        (Invalidation::Never, _) => (None, false),
        (Invalidation::OthersKey, Some(key)) => match queue.another_key()? {
            Some(other) => (Some(other), true),
            None => (Some(key), false),
        },
        (_, key) => (key, false),
    };
    if options.verbose {
        let answer = key.map_or("SEND".to_owned(), |sgl| format!("SEND_WITH_INV {:#x}", sgl.key));
        println!("queue {}: {command:?} -> status {status:#x}, {answer}", served.qid());
    }
    queue.answer(&completion, key)?;
    if is_wrong { Err("answered with the key of another command".into()) } else { Ok(()) }
}
