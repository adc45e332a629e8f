//! Commands: Fabrics, admin, and I/O. This code does not depend on RDMA.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::identify::{self, BLOCK_SHIFT, EVENT_REQUESTS, VERSION};
use crate::wire::*;

/// The maximum number of I/O queues of a controller.
const IO_QUEUES: u32 = 8;
const NAMESPACE: u32 = 1;
const ALL_NAMESPACES: u32 = u32::MAX;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The subsystem: a namespace, and the controllers of the hosts that are connected.
pub struct Target {
    nqn: String,
    disk: File,
    bytes: u64,
    controllers: Mutex<HashMap<u16, Arc<Controller>>>,
    next_id: AtomicU16,
}

/// The controller of one host.
struct Controller {
    id: u16,
    host: (String, [u8; 16]),
    /// The property CC.
    configuration: AtomicU32,
    /// Milliseconds; 0: none.
    keep_alive: AtomicU32,
}

impl Controller {
    fn configuration(&self) -> u32 {
        self.configuration.load(Ordering::Relaxed)
    }

    fn is_enabled(&self) -> bool {
        self.configuration() & 1 != 0
    }

    /// The property CSTS: ready when enabled, and shut down immediately.
    fn status(&self) -> u32 {
        const SHUTDOWN_COMPLETE: u32 = 2 << 2;
        let is_shut_down = self.configuration() >> 14 & 3 != 0;
        u32::from(self.is_enabled()) | if is_shut_down { SHUTDOWN_COMPLETE } else { 0 }
    }
}

impl Target {
    /// A target whose namespace has the contents of a file.
    pub fn new(nqn: &str, disk: File) -> Result<Target> {
        let (nqn, bytes) = (nqn.to_owned(), disk.metadata()?.len());
        let (controllers, next_id) = Default::default();
        Ok(Target { nqn, disk, bytes, controllers, next_id })
    }

    fn new_controller(&self, host: (String, [u8; 16]), keep_alive: u32) -> Arc<Controller> {
        let mut controllers = lock(&self.controllers);
        // From 1 to 0xffef, the range for dynamic controllers.
        let id = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed) % 0xffef + 1;
            if !controllers.contains_key(&id) {
                break id;
            }
        };
        let (configuration, keep_alive) = (AtomicU32::new(0), AtomicU32::new(keep_alive));
        let controller = Arc::new(Controller { id, host, configuration, keep_alive });
        controllers.insert(id, Arc::clone(&controller));
        controller
    }
}

/// The first eight bytes of the completion; `None` for a command that is completed at a later time,
/// if ever.
pub type Reply = std::result::Result<Option<u64>, Status>;

const DONE: Reply = Ok(Some(0));

/// One queue of a host.
pub struct Served {
    target: Arc<Target>,
    pub qid: u16,
    /// The size of the submission queue: first the size from the connection request, then from
    /// Connect.
    entries: u16,
    head: u16,
    /// None before Connect.
    controller: Option<Arc<Controller>>,
    event_requests: u8,
}

impl Served {
    pub fn new(target: &Arc<Target>, qid: u16, entries: u16) -> Served {
        let target = Arc::clone(target);
        Served { target, qid, entries, head: 0, controller: None, event_requests: 0 }
    }

    /// The head of the submission queue after one more command.
    pub fn next_head(&mut self) -> u16 {
        self.head = (self.head + 1) % self.entries;
        self.head
    }

    /// The interval of checks whether the queue has lost its host.
    pub fn patience(&self) -> Duration {
        let limit = self.controller.as_ref().map(|it| it.keep_alive.load(Ordering::Relaxed));
        Duration::from_millis(limit.filter(|&limit| limit != 0).unwrap_or(1000).min(1000).into())
    }

    /// Whether the queue has lost its host, which was silent for this time. An admin queue uses the
    /// keep-alive timeout; an I/O queue ends with the admin queue.
    pub fn is_over(&self, silence: Duration) -> bool {
        const BEFORE_CONNECT: Duration = Duration::from_secs(30);
        match &self.controller {
            None => silence > BEFORE_CONNECT,
            Some(controller) if self.qid == 0 => {
                // Twice, because messages take time.
                let limit = 2 * u64::from(controller.keep_alive.load(Ordering::Relaxed));
                limit != 0 && silence > Duration::from_millis(limit)
            }
            Some(controller) => !lock(&self.target.controllers).contains_key(&controller.id),
        }
    }

    /// Executes a command. `data` has the length in the command's descriptor, and contains the
    /// host's bytes or zeroes.
    pub fn execute(&mut self, command: &Command, data: &mut [u8]) -> Reply {
        let is_fabrics = command.opcode() == FABRICS;
        if is_fabrics && command.fabrics_type() == CONNECT {
            return self.connect(command, data);
        }
        let controller = self.controller.clone().ok_or(SEQUENCE_ERROR)?;
        match (is_fabrics, self.qid) {
            (true, 0) => fabrics(&controller, command),
            (true, _) => Err(INVALID_OPCODE),
            (false, _) if !controller.is_enabled() => Err(SEQUENCE_ERROR),
            (false, 0) => self.admin(&controller, command, data),
            (false, _) => self.io(command, data),
        }
    }

    fn connect(&mut self, command: &Command, data: &[u8]) -> Reply {
        let (format, qid) = (command.dword(10) as u16, (command.dword(10) >> 16) as u16);
        let last_entry = command.dword(11) as u16;
        if self.controller.is_some() {
            return Err(SEQUENCE_ERROR);
        }
        let asked = ConnectData::parse(data)?;
        let is_its = asked.subsystem == self.target.nqn && qid == self.qid && format == 0;
        if !is_its || !(1..self.entries).contains(&last_entry) {
            return Err(CONNECT_INVALID_PARAMETERS);
        }
        let host = (asked.host, asked.host_id);
        let found = lock(&self.target.controllers).get(&asked.controller).cloned();
        let controller = match (qid, found) {
            (0, None) if asked.controller == ANY_CONTROLLER => {
                self.target.new_controller(host, command.dword(12))
            }
            (1.., Some(found)) if found.host != host => return Err(CONNECT_INVALID_HOST),
            (1.., Some(found)) if found.is_enabled() && u32::from(qid) <= IO_QUEUES => found,
            _ => return Err(CONNECT_INVALID_PARAMETERS),
        };
        let id = controller.id;
        self.entries = last_entry + 1;
        self.controller = Some(controller);
        Ok(Some(id.into()))
    }

    fn admin(&mut self, controller: &Controller, command: &Command, data: &mut [u8]) -> Reply {
        match command.opcode() {
            IDENTIFY => self.identify(controller, command, data),
            SET_FEATURES | GET_FEATURES => features(controller, command),
            // Every earlier command has completed when an Abort executes, so nothing is aborted.
            ABORT => Ok(Some(1)),
            KEEP_ALIVE => DONE,
            ASYNC_EVENT_REQUEST if self.event_requests < EVENT_REQUESTS => {
                self.event_requests += 1;
                Ok(None)
            }
            ASYNC_EVENT_REQUEST => Err(TOO_MANY_EVENT_REQUESTS),
            // Error information, health, firmware slots: nothing to report.
            GET_LOG_PAGE if matches!(command.dword(10) & 0xff, 1..=3) => DONE,
            GET_LOG_PAGE => Err(INVALID_LOG_PAGE),
            _ => Err(INVALID_OPCODE),
        }
    }

    fn identify(&self, controller: &Controller, command: &Command, data: &mut [u8]) -> Reply {
        let blocks = self.target.bytes >> BLOCK_SHIFT;
        let identified = match (command.dword(10) & 0xff, command.dword(1)) {
            (0x00, NAMESPACE | ALL_NAMESPACES) => identify::namespace(blocks),
            (0x01, _) => identify::controller(controller.id, &self.target.nqn),
            (0x02, after) => identify::active_namespaces(after),
            (0x03, NAMESPACE) => identify::descriptors(),
            (0x00 | 0x03, _) => return Err(INVALID_NAMESPACE),
            _ => return Err(INVALID_FIELD),
        };
        if data.len() < identified.len() {
            return Err(SGL_LENGTH_INVALID);
        }
        put(data, 0, &identified);
        DONE
    }

    fn io(&self, command: &Command, data: &mut [u8]) -> Reply {
        match (command.opcode(), command.dword(1)) {
            (FLUSH, NAMESPACE | ALL_NAMESPACES) => transferred(self.target.disk.sync_data()),
            (WRITE, NAMESPACE) => {
                let at = place(command, data.len(), self.target.bytes)?;
                transferred(self.target.disk.write_all_at(data, at))
            }
            (READ, NAMESPACE) => {
                let at = place(command, data.len(), self.target.bytes)?;
                transferred(self.target.disk.read_exact_at(data, at))
            }
            (FLUSH | WRITE | READ, _) => Err(INVALID_NAMESPACE),
            _ => Err(INVALID_OPCODE),
        }
    }
}

/// A host's controller ends with its admin queue.
impl Drop for Served {
    fn drop(&mut self) {
        if let (Some(controller), 0) = (&self.controller, self.qid) {
            lock(&self.target.controllers).remove(&controller.id);
        }
    }
}

/// The result of a transfer from or to the disk.
fn transferred(result: std::io::Result<()>) -> Reply {
    result.map_or(Err(TRANSFER_ERROR), |()| DONE)
}

/// The offset of the bytes of the disk that a command accesses, with the length of its data.
fn place(command: &Command, data: usize, disk: u64) -> std::result::Result<u64, Status> {
    let first = u64::from(command.dword(10)) | u64::from(command.dword(11)) << 32;
    let count = u64::from(command.dword(12) as u16) + 1;
    if count << BLOCK_SHIFT != data as u64 {
        return Err(SGL_LENGTH_INVALID);
    }
    match first.checked_add(count) {
        Some(end) if end <= disk >> BLOCK_SHIFT => Ok(first << BLOCK_SHIFT),
        _ => Err(LBA_OUT_OF_RANGE),
    }
}

/// Properties.
fn fabrics(controller: &Controller, command: &Command) -> Reply {
    let (has_eight_bytes, offset) = (command.dword(10) & 7 == 1, command.dword(11));
    match (command.fabrics_type(), offset, has_eight_bytes) {
        (PROPERTY_GET, CAP, true) => Ok(Some(identify::capabilities())),
        (PROPERTY_GET, VS, false) => Ok(Some(VERSION.into())),
        (PROPERTY_GET, CC, false) => Ok(Some(controller.configuration().into())),
        (PROPERTY_GET, CSTS, false) => Ok(Some(controller.status().into())),
        (PROPERTY_SET, CC, false) => {
            controller.configuration.store(command.dword(12), Ordering::Relaxed);
            DONE
        }
        (PROPERTY_GET | PROPERTY_SET, ..) => Err(INVALID_FIELD),
        _ => Err(INVALID_OPCODE),
    }
}

/// Features, none of which has data.
fn features(controller: &Controller, command: &Command) -> Reply {
    let is_set = command.opcode() == SET_FEATURES;
    match command.dword(10) & 0xff {
        NUMBER_OF_QUEUES => {
            // Submission and completion queues, counted from 0. A host gets at most the requested
            // number.
            let granted = |asked: u32| (asked & 0xffff).min(IO_QUEUES - 1);
            let asked = if is_set { command.dword(11) } else { u32::MAX };
            Ok(Some((granted(asked >> 16) << 16 | granted(asked)).into()))
        }
        KEEP_ALIVE_TIMER if is_set => {
            controller.keep_alive.store(command.dword(11), Ordering::Relaxed);
            DONE
        }
        KEEP_ALIVE_TIMER => Ok(Some(controller.keep_alive.load(Ordering::Relaxed).into())),
        // There are no events, so all settings have the same effect.
        ASYNC_EVENTS => DONE,
        _ => Err(INVALID_FIELD),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A command with these bytes at these places.
    fn command(fields: &[(usize, &[u8])]) -> Command {
        let mut bytes = [0; COMMAND];
        fields.iter().for_each(|&(at, field)| put(&mut bytes, at, field));
        Command::parse(&bytes).expect("whole")
    }

    /// A target with a namespace of zeroes.
    fn target(bytes: usize) -> Arc<Target> {
        let (_, disk) = proverbs::memory::MapOptions::new().memfd("disk", bytes).expect("memory");
        Arc::new(Target::new(NQN, disk.into()).expect("a file"))
    }

    const NQN: &str = "nqn.test";
    const BLOCKS: usize = 64;

    fn connect_data(controller: u16, subsystem: &str, host: &str) -> Vec<u8> {
        let mut data = vec![0; CONNECT_DATA];
        put(&mut data, 16, &controller.to_le_bytes());
        put(&mut data, 256, subsystem.as_bytes());
        put(&mut data, 512, host.as_bytes());
        data
    }

    fn connect(qid: u16) -> Command {
        let qid = qid.to_le_bytes();
        command(&[(0, &[FABRICS]), (4, &[CONNECT]), (42, &qid), (44, &[31, 0])])
    }

    fn set_configuration(value: u32) -> Command {
        let fields: [(usize, &[u8]); 3] =
            [(0, &[FABRICS]), (44, &CC.to_le_bytes()), (48, &value.to_le_bytes())];
        command(&fields)
    }

    /// The admin queue of a host, with its controller enabled, and an I/O queue.
    fn connected() -> (Served, Served) {
        let target = target(BLOCKS << BLOCK_SHIFT);
        let mut admin = Served::new(&target, 0, 32);
        let Ok(Some(id)) =
            admin.execute(&connect(0), &mut connect_data(ANY_CONTROLLER, NQN, "host"))
        else {
            panic!("not connected")
        };
        assert_eq!(admin.execute(&set_configuration(1), &mut []), DONE);
        let mut io = Served::new(&target, 1, 32);
        let connected = io.execute(&connect(1), &mut connect_data(id as u16, NQN, "host"));
        assert_eq!(connected, Ok(Some(id)));
        (admin, io)
    }

    #[test]
    fn a_host_connects_to_its_own_controller_only() {
        let target = target(512);
        let asks = |qid, data: &[u8]| {
            let mut served = Served::new(&target, qid, 32);
            let executed = served.execute(&connect(qid), &mut data.to_vec());
            (served, executed)
        };
        let (_, unknown) = asks(0, &connect_data(ANY_CONTROLLER, "nqn.other", "host"));
        assert_eq!(unknown, Err(CONNECT_INVALID_PARAMETERS));
        assert_eq!(asks(0, &[0; 512]).1, Err(SGL_LENGTH_INVALID));
        let (mut admin, executed) = asks(0, &connect_data(ANY_CONTROLLER, NQN, "host"));
        let Ok(Some(id)) = executed else { panic!("{executed:?}") };
        let id = id as u16;
        let (_, early) = asks(1, &connect_data(id, NQN, "host"));
        assert_eq!(early, Err(CONNECT_INVALID_PARAMETERS), "the controller is not enabled");
        assert_eq!(admin.execute(&set_configuration(1), &mut []), DONE);
        assert_eq!(asks(1, &connect_data(id, NQN, "thief")).1, Err(CONNECT_INVALID_HOST));
        let (io, executed) = asks(1, &connect_data(id, NQN, "host"));
        assert_eq!(executed, Ok(Some(id.into())));
        assert!(!io.is_over(Duration::MAX));
        drop(admin);
        assert!(io.is_over(Duration::ZERO), "an I/O queue ends with the admin queue");
    }

    #[test]
    fn nothing_comes_before_connect() {
        let target = target(512);
        let mut served = Served::new(&target, 0, 32);
        assert_eq!(served.execute(&set_configuration(1), &mut []), Err(SEQUENCE_ERROR));
        assert!(served.is_over(Duration::from_secs(31)));
    }

    #[test]
    fn a_controller_is_ready_when_enabled_and_shut_down_at_once() {
        let (mut admin, _io) = connected();
        let status = |admin: &mut Served| {
            let get = command(&[(0, &[FABRICS]), (4, &[PROPERTY_GET]), (44, &CSTS.to_le_bytes())]);
            admin.execute(&get, &mut [])
        };
        assert_eq!(status(&mut admin), Ok(Some(1)));
        admin.execute(&set_configuration(1 << 14), &mut []).expect("shut down");
        assert_eq!(status(&mut admin), Ok(Some(2 << 2)));
    }

    #[test]
    fn blocks_are_written_and_read() {
        let (_admin, mut io) = connected();
        let at = |opcode: u8, first: u64, count: u16| {
            let last = (count - 1).to_le_bytes();
            command(&[(0, &[opcode]), (4, &[1]), (40, &first.to_le_bytes()), (48, &last)])
        };
        assert_eq!(io.execute(&at(WRITE, 62, 2), &mut [7; 1024]), DONE);
        let mut back = [0; 512];
        assert_eq!(io.execute(&at(READ, 63, 1), &mut back), DONE);
        assert_eq!(back, [7; 512]);
        assert_eq!(io.execute(&at(READ, 61, 1), &mut back), DONE);
        assert_eq!(back, [0; 512]);
        assert_eq!(io.execute(&at(READ, 63, 2), &mut [0; 1024]), Err(LBA_OUT_OF_RANGE));
        assert_eq!(io.execute(&at(READ, u64::MAX, 1), &mut back), Err(LBA_OUT_OF_RANGE));
        assert_eq!(io.execute(&at(READ, 0, 2), &mut back), Err(SGL_LENGTH_INVALID));
        let elsewhere = command(&[(0, &[READ]), (4, &[2])]);
        assert_eq!(io.execute(&elsewhere, &mut back), Err(INVALID_NAMESPACE));
    }

    #[test]
    fn event_requests_stay_pending_up_to_the_limit() {
        let (mut admin, _io) = connected();
        let request = command(&[(0, &[ASYNC_EVENT_REQUEST])]);
        for _ in 0..EVENT_REQUESTS {
            assert_eq!(admin.execute(&request, &mut []), Ok(None));
        }
        assert_eq!(admin.execute(&request, &mut []), Err(TOO_MANY_EVENT_REQUESTS));
    }

    #[test]
    fn a_host_gets_no_more_queues_than_it_asks_for() {
        let (mut admin, _io) = connected();
        let mut asks = |asked: u32| {
            let feature = NUMBER_OF_QUEUES.to_le_bytes();
            let fields: [(usize, &[u8]); 3] =
                [(0, &[SET_FEATURES]), (40, &feature), (44, &asked.to_le_bytes())];
            admin.execute(&command(&fields), &mut [])
        };
        assert_eq!(asks(0), Ok(Some(0)));
        assert_eq!(asks(0x0003_0002), Ok(Some(0x0003_0002)));
        assert_eq!(asks(0x00ff_00ff), Ok(Some(0x0007_0007)));
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 2000,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// Any command from a host is executed or rejected.
        #[test]
        fn any_command_is_answered(
            opcode in prop_oneof![Just(FABRICS), 0u8..0x10, any::<u8>()],
            noise in proptest::collection::vec(any::<u8>(), 63),
            is_plausible in any::<bool>(),
            (kind, namespace) in (0u8..10, 0u8..3),
            len in prop_oneof![Just(0), Just(512), Just(1024), Just(4096), 0..9000usize],
        ) {
            let plausible: [(usize, &[u8]); 3] = [(0, &[opcode]), (4, &[namespace]), (40, &[kind])];
            let command = match is_plausible {
                true => command(&plausible),
                false => command(&[(0, &[opcode]), (1, &noise)]),
            };
            let (mut admin, mut io) = connected();
            let _ = admin.execute(&command, &mut vec![0; len]);
            let _ = io.execute(&command, &mut vec![0; len]);
            let _ = Sgl::parse(&command, usize::MAX);
        }
    }
}
