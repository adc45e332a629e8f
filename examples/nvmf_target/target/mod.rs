//! The target: accepts connections, and executes the commands of each on its own thread.

mod controller;
mod identify;
mod queue;

use std::sync::Arc;
use std::thread;
use std::time::Instant;

use bpaf::Bpaf;
use proverbs::Buf;
use proverbs::cm::{CmId, Listening, Request, Tcp};

use crate::wire::{
    self, Command, Completion, Direction, Kind, RdmaRequest, Result, SGL_LENGTH_INVALID,
    SGL_TYPE_INVALID, Sgl,
};
pub use controller::Target;
use controller::{Reply, Served};
use queue::{Next, Queue};

#[derive(Clone, Copy, Bpaf)]
pub struct Config {
    /// Print each command
    #[bpaf(short, long)]
    pub verbose: bool,
    /// For tests of hosts: never invalidate a key, although a command requests it
    #[bpaf(long)]
    pub never_invalidate: bool,
    /// For tests of hosts: invalidate the key of another command, if one is outstanding, which ends
    /// the connection
    #[bpaf(long)]
    pub others_key: bool,
}

/// Serves hosts until the listening id fails.
pub fn serve(listening: &CmId<Tcp, Listening>, to: &Arc<Target>, config: Config) -> Result<()> {
    loop {
        let (request, target) = (listening.get_request()?, Arc::clone(to));
        thread::spawn(move || {
            // Other queues continue.
            if let Err(error) = serve_one(request, &target, config) {
                eprintln!("nvmf_target: {error}");
            }
        });
    }
}

/// One connection, from its request to its end.
fn serve_one(request: Request<Tcp>, target: &Arc<Target>, config: Config) -> Result<()> {
    let asked = match RdmaRequest::parse(&request.private_data) {
        Ok(asked) => asked,
        Err(refusal) => {
            request.reject(&queue::rdma_reject(refusal))?;
            return Err(format!("rejected a connection: {refusal:?}").into());
        }
    };
    let RdmaRequest { qid, sq_size } = asked;
    let mut queue = Queue::accept(request, asked)?;
    println!("queue {qid}: accepted, {sq_size} entries");
    let mut served = Served::new(target, qid, sq_size);
    let ended = serve_queue(&mut queue, &mut served, config);
    let (commands, invalidated) = queue.answered;
    println!("queue {qid}: {commands} commands, {invalidated} answered by SEND_WITH_INV");
    let closed = queue.close();
    ended.and(closed).map_err(|error| format!("queue {qid}: {error}").into())
}

fn serve_queue(queue: &mut Queue, served: &mut Served, config: Config) -> Result<()> {
    let mut heard = Instant::now();
    loop {
        match queue.next(served.patience())? {
            Next::Capsule(capsule) => {
                heard = Instant::now();
                serve_command(queue, served, capsule, config)?;
            }
            Next::Ended => return Ok(()),
            Next::Silence if served.is_over(heard.elapsed()) => {
                return Err("the host is silent for longer than its keep-alive timeout".into());
            }
            Next::Silence => {}
        }
    }
}

fn serve_command(
    queue: &mut Queue,
    served: &mut Served,
    mut capsule: Buf,
    config: Config,
) -> Result<()> {
    let command = Command::parse(&capsule)?;
    let head = served.next_head();
    let sgl = match command.direction() {
        Direction::None => Ok(None),
        _ => Sgl::parse(&command, queue::MAX_TRANSFER).map(Some),
    };
    let reply = match sgl {
        Ok(sgl) => execute(queue, served, &command, sgl, &mut capsule)?,
        Err(status) => Err(status),
    };
    // Before the completion is sent, because the host then sends another command.
    queue.take_more(capsule)?;
    let (result, status) = match reply {
        Ok(None) => return Ok(()),
        Ok(Some(result)) => (result, wire::SUCCESS),
        Err(status) => (0, status),
    };
    let completion = Completion { result, head, command: command.id(), status }.to_bytes();
    let is_revoked = |sgl: &Sgl| sgl.kind == Kind::ToInvalidate && !config.never_invalidate;
    let key = sgl.ok().flatten().filter(is_revoked);
    let other = if config.others_key && key.is_some() { queue.another_key()? } else { None };
    let key = other.or(key);
    if config.verbose {
        let answer = key.map_or("SEND".to_owned(), |sgl| format!("SEND_WITH_INV {}", sgl.key));
        let (qid, opcode) = (served.qid, command.opcode());
        println!("queue {qid}: opcode {opcode:#04x}, {sgl:?} -> status {status:#x}, {answer}");
    }
    queue.answer(&completion, key)?;
    if other.is_some() { Err("answered with the key of another command".into()) } else { Ok(()) }
}

/// Executes a command with its data. Data in the capsule is used where it arrived.
fn execute(
    queue: &mut Queue,
    served: &mut Served,
    command: &Command,
    sgl: Option<Sgl>,
    capsule: &mut [u8],
) -> Result<Reply> {
    let is_to_target = command.direction() == Direction::ToTarget;
    let Some(sgl) = sgl.filter(|sgl| sgl.len > 0) else {
        return Ok(served.execute(command, &mut []));
    };
    if sgl.kind == Kind::InCapsule {
        let data = capsule[wire::COMMAND..].get_mut(sgl.addr as usize..);
        return Ok(match data.and_then(|data| data.get_mut(..sgl.len)) {
            _ if !is_to_target => Err(SGL_TYPE_INVALID),
            Some(data) => served.execute(command, data),
            None => Err(SGL_LENGTH_INVALID),
        });
    }
    let mut data = queue.data(sgl.len)?;
    if is_to_target {
        data = queue.fetch(data, sgl)?;
    }
    let reply = served.execute(command, &mut data);
    if !is_to_target && matches!(reply, Ok(Some(_))) {
        queue.put(data, sgl)?;
    }
    Ok(reply)
}
