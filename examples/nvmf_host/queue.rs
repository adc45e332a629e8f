//! An RDMA connection that carries one submission queue and its completion queue.
//!
//! Each command in flight has a slot, with a part of the queue's memory. The target reads or writes
//! this part with the key in the command. If the device has memory windows, the key belongs to a
//! window that is bound to the data of this command only, and the target's completion invalidates
//! it. Otherwise it is the key of the whole region.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use proverbs::cm::{CmId, ConnParam, Connection, RouteResolved, Tcp};
use proverbs::ext::windows::{LentWindow, MemoryWindow, Windowed};
use proverbs::prelude::*;

use crate::wire::{COMMAND, COMPLETION, Command, Completion, Kind, RdmaRequest, Result, Sgl};

/// A step of connecting, or a command, that takes longer than this fails.
pub const LONG: Duration = Duration::from_secs(30);
/// The longest wait before the queue checks whether the target has disconnected.
const NAP: Duration = Duration::from_millis(20);

// A capsule with data is gathered from two buffers. The completion of a bind returns its window. A
// host never reads: the target does.
profile! { Host { entry: AnyBuf, max_send_sge: 2, initiator: NoReads } }

/// The memory for the data of commands.
enum Memory {
    /// Accessible only through windows.
    Windowed(MemoryRegion<Windowed<LocalWrite>>),
    Keyed(MemoryRegion<RemoteReadWrite>),
}

#[derive(Default)]
struct Slot {
    is_busy: bool,
    /// An unbound window.
    window: Option<MemoryWindow>,
    /// A window whose key the target has.
    lent: Option<LentWindow>,
    /// The key of the window that is lent, or will be when its bind has completed.
    key: Option<u32>,
}

/// The data of a command.
pub enum Data {
    None,
    /// Sent in the capsule, from this buffer.
    InCapsule(Buf),
    /// The first bytes of the slot's memory, which the target reads.
    ToTarget(usize),
    /// The first bytes of the slot's memory, which the target writes.
    ToHost(usize),
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub commands: u64,
    pub in_capsule: u64,
    pub keyed: u64,
    /// Keys that the target has invalidated.
    pub invalidated: u64,
}

pub struct Queue {
    connection: Connection<Host>,
    channel: CompletionChannel,
    sends: CompletionQueue<AnyBuf>,
    receives: CompletionQueue<AnyBuf>,
    /// For commands, and for data in capsules.
    pools: (Pool, Pool),
    memory: Memory,
    /// Bytes of memory of each slot.
    pub size: usize,
    slots: Vec<Slot>,
    done: VecDeque<Completion>,
    pub counts: Counts,
}

impl Queue {
    /// Connects a queue for `depth` commands in flight, each with at most `size` bytes of data, of
    /// which at most `in_capsule` are in its capsule.
    pub fn connect(
        id: CmId<Tcp, RouteResolved>,
        qid: u16,
        depth: u16,
        size: usize,
        in_capsule: usize,
    ) -> Result<Queue> {
        let (context, pd, count) = (id.context()?, id.pd()?, usize::from(depth));
        // A command is a bind and a SEND. Completions of both may arrive after the command's own.
        let limits = Depth { send: 4 * u32::from(depth), recv: depth.into() };
        let channel = context.create_comp_channel()?;
        let sends = context.create_cq(limits.send + 1)?;
        let receives = context.cq(limits.recv).channel(&channel).create()?;
        let mut qp = id.create_qp::<Host>(&pd, &sends, &receives, limits)?;
        let completions = pd.create_pool(count, COMPLETION)?;
        while let Some(buf) = completions.take() {
            qp.post_recv(wr::Recv::new(buf))?;
        }
        let slots = (0..depth).map(|_| Slot::default()).collect();
        let memory = match qp.alloc_mw() {
            Ok(_) => Memory::Windowed(pd.register(count * size)?),
            Err(error) if error.errno() != Some(libc::EOPNOTSUPP) => return Err(error.into()),
            // No windows, as on siw.
            Err(_) => Memory::Keyed(pd.register(count * size)?),
        };
        let capsules = pd.create_pool(2 * count, COMMAND)?;
        let pools = (capsules, pd.create_pool(2 * count, in_capsule.max(1))?);
        // One entry stays empty, so this many commands may be outstanding.
        let private_data = RdmaRequest { qid, sq_size: depth + 1 }.private_data();
        let param = ConnParam { private_data, ..Default::default() };
        let connection = id.connect(qp, &param, LONG)?;
        let (done, counts) = Default::default();
        Ok(Queue { connection, channel, sends, receives, pools, memory, size, slots, done, counts })
    }

    /// A slot for a command, if one is free.
    pub fn slot(&mut self) -> Option<u16> {
        let slot = self.slots.iter().position(|slot| !slot.is_busy)?;
        self.slots[slot].is_busy = true;
        Some(slot as u16)
    }

    /// Returns a slot whose command has completed.
    pub fn release(&mut self, slot: u16) {
        self.slots[usize::from(slot)].is_busy = false;
    }

    /// A buffer for data in a capsule, if one is free.
    pub fn buffer(&self) -> Option<Buf> {
        self.pools.1.take()
    }

    /// Writes the start of a slot's memory.
    pub fn fill(&self, slot: u16, bytes: &[u8]) -> Result<()> {
        let at = usize::from(slot) * self.size;
        match &self.memory {
            Memory::Windowed(region) => Ok(region.write_at(at, bytes)?),
            Memory::Keyed(region) => Ok(region.write_at(at, bytes)?),
        }
    }

    /// Reads the start of a slot's memory.
    pub fn read(&self, slot: u16, bytes: &mut [u8]) -> Result<()> {
        let at = usize::from(slot) * self.size;
        match &self.memory {
            Memory::Windowed(region) => Ok(region.read_at(at, bytes)?),
            Memory::Keyed(region) => Ok(region.read_at(at, bytes)?),
        }
    }

    /// Sends a command. Its identifier is the slot.
    pub fn submit(&mut self, slot: u16, command: Command, data: Data) -> Result<()> {
        let most = self.connection.qp.depth().send as usize;
        let mut capsule = loop {
            // The completion of a send may arrive after the completion of its command.
            reap(&mut self.sends, &mut self.slots)?;
            match self.pools.0.take() {
                Some(capsule) if self.connection.qp.sends_outstanding() + 2 <= most => {
                    break capsule;
                }
                _ => thread::yield_now(),
            }
        };
        let command = command.set(2, &slot.to_le_bytes());
        let (command, in_capsule) = match data {
            Data::None => (command, None),
            Data::ToTarget(len) => (command.with_sgl(self.lend(slot, len, false)?), None),
            Data::ToHost(len) => (command.with_sgl(self.lend(slot, len, true)?), None),
            Data::InCapsule(buf) => {
                let sgl = Sgl { kind: Kind::InCapsule, addr: 0, len: buf.len(), key: 0 };
                (command.with_sgl(sgl), Some(buf))
            }
        };
        capsule.copy_from(&command.0)?;
        self.counts.commands += 1;
        self.counts.in_capsule += u64::from(in_capsule.is_some());
        let qp = &mut self.connection.qp;
        // A bind precedes it, so the key is valid when the target receives it.
        match in_capsule {
            None => qp.post_send(wr::Send::new(capsule))?,
            Some(data) => qp.post_send(wr::Send::new([capsule, data]))?,
        }
        Ok(())
    }

    /// Lends the target the start of a slot's memory, for one command.
    fn lend(&mut self, slot: u16, len: usize, is_to_host: bool) -> Result<Sgl> {
        let at = usize::from(slot) * self.size;
        let range = at..at + len;
        self.counts.keyed += 1;
        let region = match &self.memory {
            Memory::Windowed(region) => region,
            Memory::Keyed(region) => {
                let part = region.remote().slice(at as u64, len as u64)?;
                let (addr, key) = (part.addr(), part.rkey());
                return Ok(Sgl { kind: Kind::Keyed, addr, len, key });
            }
        };
        let (state, qp) = (&mut self.slots[usize::from(slot)], &mut self.connection.qp);
        let mut window = match state.window.take() {
            Some(window) => window,
            None => qp.alloc_mw()?,
        };
        window.set_id(slot.into());
        let (bind, (addr, key)) = if is_to_host {
            let (bind, lent) =
                ext::windows::BindMw::<RemoteWrite>::new(window, region, range)?.lend();
            (bind, (lent.slice(0, 0)?.addr(), lent.rkey()))
        } else {
            let (bind, lent) =
                ext::windows::BindMw::<RemoteRead>::new(window, region, range)?.lend();
            (bind, (lent.slice(0, 0)?.addr(), lent.rkey()))
        };
        qp.post_send(bind)?;
        state.key = Some(key);
        Ok(Sgl { kind: Kind::ToInvalidate, addr, len, key })
    }

    /// The next command that completes. Its slot stays in use until it is released.
    pub fn next(&mut self) -> Result<Completion> {
        let began = Instant::now();
        loop {
            if let Some(done) = self.done.pop_front() {
                return Ok(done);
            }
            // Checked first, so that a completion from before the end is not missed.
            let is_over = self.is_disconnected()?;
            self.wait(if is_over { Duration::ZERO } else { NAP })?;
            if is_over && self.done.is_empty() {
                return Err("the target disconnected".into());
            }
            if began.elapsed() > LONG {
                return Err("the target does not answer".into());
            }
        }
    }

    /// Whether the target has disconnected.
    pub fn is_disconnected(&mut self) -> Result<bool> {
        match self.connection.id.wait_disconnected(Duration::ZERO) {
            Ok(()) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes the target's messages, and waits for them at most for `nap`.
    fn wait(&mut self, nap: Duration) -> Result<()> {
        reap(&mut self.sends, &mut self.slots)?;
        let mut messages = Vec::new();
        for completion in self.channel.wait_timeout(&mut self.receives, nap)? {
            completion.status()?;
            let key = completion.invalidated_rkey();
            let slot = self.slots.iter_mut().position(|slot| key.is_some() && slot.key == key);
            let Some(slot) = slot else {
                messages.push(completion.into_entry());
                continue;
            };
            let lent = lent(&mut self.sends, &mut self.slots, slot)?;
            let (window, message) =
                lent.revoked(completion).map_err(|_| "another window has this key")?;
            (self.slots[slot].window, self.slots[slot].key) = (Some(window), None);
            self.counts.invalidated += 1;
            messages.push(message.entry);
        }
        for buf in messages.into_iter().filter_map(|entry| entry.and_then(AnyBuf::into_buf)) {
            let done = Completion::parse(&buf)?;
            self.connection.qp.post_recv(wr::Recv::new(buf))?;
            let slot = usize::from(done.command);
            let state = self.slots.get_mut(slot).filter(|state| state.is_busy);
            if state.ok_or("a completion of no command")?.key.take().is_some() {
                // The target did not invalidate the key. Dropping the window does.
                drop(lent(&mut self.sends, &mut self.slots, slot)?);
            }
            self.done.push_back(done);
        }
        Ok(())
    }

    /// Closes the connection. Buffers return when the queue pair is destroyed.
    pub fn close(self) -> Result<()> {
        let ended = self.connection.disconnect()?;
        ended.qp.destroy()?;
        Ok(ended.id.destroy()?)
    }
}

/// Takes the completions of sends and binds. Buffers return to their pools.
fn reap(sends: &mut CompletionQueue<AnyBuf>, slots: &mut [Slot]) -> Result<()> {
    for completion in sends.poll()? {
        completion.status()?;
        if let Some(AnyBuf::Window(window)) = completion.into_entry() {
            let slot = window.id() as usize;
            slots[slot].lent = Some(window.into_lent()?);
        }
    }
    Ok(())
}

/// The window of a command that has completed. Its bind has completed before, but the completion of
/// the bind is in another queue.
fn lent(
    sends: &mut CompletionQueue<AnyBuf>,
    slots: &mut [Slot],
    slot: usize,
) -> Result<LentWindow> {
    loop {
        reap(sends, slots)?;
        if let Some(lent) = slots[slot].lent.take() {
            return Ok(lent);
        }
    }
}
