//! Random reads and writes of a namespace, whose results are compared with what was written.
//!
//! Each I/O queue has a thread, and a part of the namespace that only this thread uses. The
//! contents of a block are computed from a seed, its address, and the number of the write. While a
//! block is being written, and after a write whose completion did not arrive, its contents are
//! unknown.

use std::ops::Range;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg32;

use crate::controller::{Controller, Identity, Route, Wanted};
use crate::queue::{Counts, Data, LONG, Queue};
use crate::wire::{Command, READ, Result, SUCCESS, WRITE};

pub struct Plan {
    pub wanted: Wanted,
    pub queues: u16,
    /// Reads and writes of each queue.
    pub ios: u64,
    pub seed: u64,
    /// Connections after the first one failed.
    pub reconnects: u32,
}

/// Connects, and executes the plan. If the connection breaks, connects again and continues. Returns
/// the number of connections, and the counts of each queue in the last one.
pub fn run(route: &Route<'_>, plan: &Plan) -> Result<(u32, Vec<Counts>)> {
    let (mut parts, mut connections) = (Vec::new(), 0);
    loop {
        connections += 1;
        match attempt(route, plan, &mut parts) {
            Ok(counts) => return Ok((connections, counts)),
            Err(error) if connections > plan.reconnects => return Err(error),
            Err(error) => println!("connection {connections}: {error}"),
        }
    }
}

fn attempt(route: &Route<'_>, plan: &Plan, parts: &mut Vec<Part>) -> Result<Vec<Counts>> {
    let mut controller = Controller::connect(route, &plan.wanted)?;
    let identity = controller.identity;
    let queues = controller.io_queues(plan.queues)?;
    if parts.is_empty() {
        let blocks = identity.blocks / u64::from(plan.queues);
        parts.extend((0..plan.queues.into()).map(|n| Part::new(n, blocks, plan)));
    }
    if queues.len() < parts.len() {
        return Err(format!("the controller grants {} I/O queues", queues.len()).into());
    }
    let interval = match plan.wanted.keep_alive {
        0 => LONG,
        limit => Duration::from_millis(u64::from(limit) / 2),
    };
    let ended = thread::scope(|threads| {
        let (says, ended) = mpsc::channel();
        for (mut queue, part) in queues.into_iter().zip(&mut *parts) {
            let says = says.clone();
            threads.spawn(move || {
                let counts = part.work(&mut queue, &identity).map(|()| queue.counts);
                // The other end lives as long as this thread.
                let _ = says.send(counts.and_then(|counts| queue.close().map(|()| counts)));
            });
        }
        drop(says);
        let mut counts = Vec::new();
        loop {
            match ended.recv_timeout(interval) {
                Ok(result) => counts.push(result?),
                Err(RecvTimeoutError::Timeout) => controller.keep_alive()?,
                Err(RecvTimeoutError::Disconnected) => return Ok(counts),
            }
        }
    });
    let counts = if parts.iter().all(|part| part.left == 0) { ended? } else { return ended };
    controller.shut_down()?;
    Ok(counts)
}

/// One thread's part of the namespace.
struct Part {
    seed: u64,
    random: Pcg32,
    first: u64,
    /// The number of the write to each block; 0 if its contents are unknown.
    writes: Vec<u64>,
    write: u64,
    left: u64,
}

/// A read or write in flight.
struct Pending {
    is_read: bool,
    blocks: Range<usize>,
    /// The numbers of the writes that the blocks contain when it completes.
    writes: Vec<u64>,
}

impl Part {
    fn new(n: u64, blocks: u64, plan: &Plan) -> Part {
        // The memory of this program limits the part.
        let writes = vec![0; blocks.min(1 << 16) as usize];
        let random = Pcg32::seed_from_u64(plan.seed ^ n);
        Part { seed: plan.seed, random, first: n * blocks, writes, write: 0, left: plan.ios }
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.next_u32() as usize % end.max(1)
    }

    /// Executes the reads and writes that are left.
    fn work(&mut self, queue: &mut Queue, identity: &Identity) -> Result<()> {
        let mut pending: Vec<Option<Pending>> = Vec::new();
        let most = (queue.size / identity.block).min(self.writes.len());
        if most == 0 {
            return Err(format!("a block of {} bytes is too large", identity.block).into());
        }
        while self.left > 0 || pending.iter().any(Option::is_some) {
            let in_flight = pending.iter().flatten().count() as u64;
            let count = 1 + self.below(most);
            let start = self.below(self.writes.len() - count + 1);
            let blocks = start..start + count;
            let is_free = |it: &Pending| it.blocks.end <= start || blocks.end <= it.blocks.start;
            if in_flight < self.left && pending.iter().flatten().all(is_free) {
                if let Some(slot) = queue.slot() {
                    let slot_end = usize::from(slot) + 1;
                    pending.resize_with(pending.len().max(slot_end), || None);
                    pending[slot_end - 1] = Some(self.start(queue, identity, slot, blocks)?);
                    continue;
                }
            }
            let done = queue.next()?;
            let it =
                pending[usize::from(done.command)].take().ok_or("a completion of no command")?;
            if done.status != SUCCESS {
                return Err(
                    format!("an I/O command failed with status {:#06x}", done.status).into()
                );
            }
            self.finish(queue, identity.block, done.command, it)?;
            queue.release(done.command);
            self.left -= 1;
        }
        Ok(())
    }

    /// Sends a read, a write with its data in the capsule, or a write with a key.
    fn start(
        &mut self,
        queue: &mut Queue,
        identity: &Identity,
        slot: u16,
        blocks: Range<usize>,
    ) -> Result<Pending> {
        let (at, len) = (self.first + blocks.start as u64, blocks.len() * identity.block);
        let is_read = self.below(2) == 0;
        let command = Command::new(if is_read { READ } else { WRITE }, identity.namespace);
        let command = command.with(10, at as u32).with(11, (at >> 32) as u32);
        let command = command.with(12, blocks.len() as u32 - 1);
        if is_read {
            queue.submit(slot, command, Data::ToHost(len))?;
            let writes = self.writes[blocks.clone()].to_vec();
            return Ok(Pending { is_read, blocks, writes });
        }
        self.write += 1;
        self.writes[blocks.clone()].fill(0);
        let pending = Pending { is_read, writes: vec![self.write; blocks.len()], blocks };
        let bytes = self.contents(&pending, identity.block);
        let data = match queue.buffer().filter(|_| len <= identity.in_capsule) {
            Some(mut buf) => {
                buf.copy_from(&bytes)?;
                Data::InCapsule(buf)
            }
            None => {
                queue.fill(slot, &bytes)?;
                Data::ToTarget(len)
            }
        };
        queue.submit(slot, command, data)?;
        Ok(pending)
    }

    /// Compares what was read, or records what was written.
    fn finish(&mut self, queue: &Queue, block: usize, slot: u16, it: Pending) -> Result<()> {
        if !it.is_read {
            self.writes[it.blocks].copy_from_slice(&it.writes);
            return Ok(());
        }
        let expected = self.contents(&it, block);
        let mut read = vec![0; expected.len()];
        queue.read(slot, &mut read)?;
        let blocks = read.chunks(block).zip(expected.chunks(block)).zip(&it.writes);
        for (n, ((read, expected), &write)) in blocks.enumerate() {
            if write != 0 && read != expected {
                let block = self.first + (it.blocks.start + n) as u64;
                return Err(format!("block {block} does not contain write {write}").into());
            }
        }
        Ok(())
    }

    /// The contents of these blocks, of `block` bytes each, after these writes.
    fn contents(&self, Pending { blocks, writes, .. }: &Pending, block: usize) -> Vec<u8> {
        let mut bytes = vec![0; blocks.len() * block];
        for ((bytes, place), write) in bytes.chunks_mut(block).zip(blocks.clone()).zip(writes) {
            let place = self.first + place as u64;
            Pcg32::seed_from_u64(self.seed ^ place << 32 ^ write).fill_bytes(bytes);
        }
        bytes
    }
}
