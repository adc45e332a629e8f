//! A controller of the target: the admin queue, and the I/O queues that belong to it.

use std::thread;
use std::time::Instant;

use proverbs::cm::{CmId, RouteResolved, Tcp};

use crate::queue::{Data, LONG, Queue};
use crate::wire::*;

/// Finds a route to the target.
pub type Route<'a> = dyn Fn() -> Result<CmId<Tcp, RouteResolved>> + Sync + 'a;

/// The name of this host.
const HOST: &str = "nqn.2026-01.example:nvmf_host";

/// The name of the subsystem, and limits of the queues.
#[derive(Clone)]
pub struct Wanted {
    pub subsystem: String,
    /// Commands in flight of an I/O queue.
    pub depth: u16,
    /// Bytes of data of a command.
    pub size: usize,
    /// Milliseconds; 0: none.
    pub keep_alive: u32,
}

/// The limits of the controller, and the namespace.
#[derive(Clone, Copy, Debug, Default)]
pub struct Identity {
    /// Bytes of data of a command, and of data in a capsule.
    pub max_transfer: usize,
    pub in_capsule: usize,
    pub namespace: u32,
    pub blocks: u64,
    /// Bytes of a block.
    pub block: usize,
}

pub struct Controller<'a> {
    route: &'a Route<'a>,
    wanted: Wanted,
    pub admin: Queue,
    id: u16,
    pub identity: Identity,
}

/// Commands of the admin queue in flight.
const ADMIN_DEPTH: u16 = 31;
/// The value of CC: enabled, with entries of 64 and 16 bytes.
const ENABLE: u32 = 1 | 6 << 16 | 4 << 20;
const SHUT_DOWN: u32 = ENABLE | 1 << 14;

impl<'a> Controller<'a> {
    /// Connects the admin queue, enables the controller, and identifies its first namespace.
    pub fn connect(route: &'a Route<'a>, wanted: &Wanted) -> Result<Controller<'a>> {
        let mut admin = Queue::connect(route()?, 0, ADMIN_DEPTH, IDENTIFY_DATA, 0)?;
        let id = connect(&mut admin, 0, ANY_CONTROLLER, wanted)?;
        let (wanted, identity) = (wanted.clone(), Identity::default());
        let mut controller = Controller { route, wanted, admin, id, identity };
        controller.property_set(CC, ENABLE)?;
        controller.wait_for_status(1)?;
        controller.identify()?;
        Ok(controller)
    }

    /// Asks for `count` I/O queues, and connects as many as the controller grants.
    pub fn io_queues(&mut self, count: u16) -> Result<Vec<Queue>> {
        let last = u32::from(count.max(1) - 1);
        let set = Command::new(SET_FEATURES, 0).with(10, NUMBER_OF_QUEUES);
        let granted = self.command(set.with(11, last << 16 | last))?;
        let granted = (granted as u16).min((granted >> 16) as u16).saturating_add(1);
        (1..=granted.min(count)).map(|qid| self.io_queue(qid)).collect()
    }

    fn io_queue(&self, qid: u16) -> Result<Queue> {
        let Wanted { depth, size, .. } = self.wanted;
        let size = size.min(self.identity.max_transfer).max(CONNECT_DATA);
        let in_capsule = self.identity.in_capsule.min(size);
        let mut queue = Queue::connect((self.route)()?, qid, depth, size, in_capsule)?;
        connect(&mut queue, qid, self.id, &self.wanted)?;
        Ok(queue)
    }

    pub fn keep_alive(&mut self) -> Result<()> {
        self.command(Command::new(KEEP_ALIVE, 0)).map(drop)
    }

    /// Executes an admin command without data.
    pub fn command(&mut self, command: Command) -> Result<u64> {
        let slot = self.admin.slot().ok_or("all slots are in use")?;
        run(&mut self.admin, slot, command, Data::None)
    }

    /// Shuts the controller down. Close the I/O queues first.
    pub fn shut_down(mut self) -> Result<()> {
        const COMPLETE: u64 = 2 << 2;
        self.property_set(CC, SHUT_DOWN)?;
        self.wait_for_status(COMPLETE)?;
        self.admin.close()
    }

    fn property_set(&mut self, offset: u32, value: u32) -> Result<()> {
        let set = Command::fabrics(PROPERTY_SET).with(11, offset).with(12, value);
        self.command(set).map(drop)
    }

    fn wait_for_status(&mut self, bits: u64) -> Result<()> {
        let began = Instant::now();
        loop {
            let status = self.command(Command::fabrics(PROPERTY_GET).with(11, CSTS))?;
            if status & bits == bits {
                return Ok(());
            }
            if began.elapsed() > LONG {
                return Err(format!("the controller's status stays {status:#x}").into());
            }
            thread::yield_now();
        }
    }

    fn identify(&mut self) -> Result<()> {
        const EIGHT_BYTES: u32 = 1;
        let cap = Command::fabrics(PROPERTY_GET).with(10, EIGHT_BYTES).with(11, CAP);
        let smallest_page = PAGE << (self.command(cap)? >> 48 & 0xf);
        let data = self.identify_data(0x01, 0)?;
        let sgls = u32_at(&data, 536);
        if sgls & 1 << 2 == 0 {
            return Err("the controller does not support keyed SGLs".into());
        }
        let capsule = 16 * u32_at(&data, 1792) as usize;
        // Data in a capsule follows the command, and its SGL contains an offset.
        let has_offsets = sgls & 1 << 20 != 0 && u16_at(&data, 1800) == 0;
        let in_capsule = if has_offsets { capsule.saturating_sub(COMMAND) } else { 0 };
        let max_transfer = match data[77] {
            0 => usize::MAX,
            shift => smallest_page.checked_shl(shift.into()).unwrap_or(usize::MAX),
        };
        let namespace = u32_at(&self.identify_data(0x02, 0)?, 0);
        if namespace == 0 {
            return Err("the subsystem has no namespace".into());
        }
        let data = self.identify_data(0x00, namespace)?;
        let (blocks, format) = (u64_at(&data, 0), usize::from(data[26] & 0xf));
        let shift = u32::from(data[128 + 4 * format + 2]);
        let block = 1_usize.checked_shl(shift).filter(|block| (512..=1 << 16).contains(block));
        let block =
            block.ok_or_else(|| format!("namespace {namespace} has blocks of 2^{shift} bytes"))?;
        self.identity = Identity { max_transfer, in_capsule, namespace, blocks, block };
        Ok(())
    }

    fn identify_data(&mut self, kind: u32, namespace: u32) -> Result<Vec<u8>> {
        let identify = Command::new(IDENTIFY, namespace).with(10, kind);
        let slot = self.admin.slot().ok_or("all slots are in use")?;
        run(&mut self.admin, slot, identify, Data::ToHost(IDENTIFY_DATA))?;
        let mut data = vec![0; IDENTIFY_DATA];
        self.admin.read(slot, &mut data)?;
        Ok(data)
    }
}

/// Makes a connection queue `qid` of a controller, whose identifier is returned.
fn connect(queue: &mut Queue, qid: u16, controller: u16, wanted: &Wanted) -> Result<u16> {
    let (depth, keep_alive) = match qid {
        0 => (ADMIN_DEPTH, wanted.keep_alive),
        _ => (wanted.depth, 0),
    };
    let command = Command::fabrics(CONNECT).with(10, u32::from(qid) << 16);
    let command = command.with(11, depth.into()).with(12, keep_alive);
    let (subsystem, host) = (wanted.subsystem.clone(), HOST.to_owned());
    let data = ConnectData { host_id: *b"proverbs nvmf 01", controller, subsystem, host };
    let slot = queue.slot().ok_or("all slots are in use")?;
    queue.fill(slot, &data.to_bytes())?;
    let done = run(queue, slot, command, Data::ToTarget(CONNECT_DATA))?;
    Ok(done as u16)
}

/// Executes a command while no other is in flight. Returns the result in its completion.
fn run(queue: &mut Queue, slot: u16, command: Command, data: Data) -> Result<u64> {
    queue.submit(slot, command, data)?;
    let done = queue.next()?;
    queue.release(done.command);
    match done.status {
        SUCCESS => Ok(done.result),
        status => Err(format!("a command failed with status {status:#06x}").into()),
    }
}
