//! NVMe over Fabrics on RDMA, as bytes: commands, completions, and the private data of connections.
//! All numbers are little-endian. The bytes come from a peer that is not trusted: a length or a
//! value that does not fit is an error. The layouts come from the NVM Express Base, NVM Command Set
//! and RDMA Transport specifications.

#![allow(dead_code)] // each side uses a part

use proverbs::cm::PrivateData;

/// Any error, as one line.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The name of the subsystem, unless another is given.
pub const NQN: &str = "nqn.2026-01.example:proverbs";
/// Bytes of a command without data, and of a completion.
pub const COMMAND: usize = 64;
pub const COMPLETION: usize = 16;
/// Bytes of the data of Connect, and of each data structure of Identify.
pub const CONNECT_DATA: usize = 1024;
pub const IDENTIFY_DATA: usize = 4096;
/// Bytes of an NVMe qualified name's field.
const NQN_FIELD: usize = 256;
/// Bytes of the smallest memory page that a host may have.
pub const PAGE: usize = 4096;
/// The maximum number of entries of a queue.
pub const MAX_ENTRIES: u16 = 128;
/// The controller identifier with which a host requests any controller.
pub const ANY_CONTROLLER: u16 = 0xffff;

/// Opcode of all Fabrics commands, whose type is in another byte.
pub const FABRICS: u8 = 0x7f;
pub const PROPERTY_SET: u8 = 0x00;
pub const CONNECT: u8 = 0x01;
pub const PROPERTY_GET: u8 = 0x04;
/// Admin commands.
pub const GET_LOG_PAGE: u8 = 0x02;
pub const IDENTIFY: u8 = 0x06;
pub const ABORT: u8 = 0x08;
pub const SET_FEATURES: u8 = 0x09;
pub const GET_FEATURES: u8 = 0x0a;
pub const ASYNC_EVENT_REQUEST: u8 = 0x0c;
pub const KEEP_ALIVE: u8 = 0x18;
/// I/O commands.
pub const FLUSH: u8 = 0x00;
pub const WRITE: u8 = 0x01;
pub const READ: u8 = 0x02;

/// Features.
pub const NUMBER_OF_QUEUES: u32 = 0x07;
pub const ASYNC_EVENTS: u32 = 0x0b;
pub const KEEP_ALIVE_TIMER: u32 = 0x0f;

/// Properties, by their offsets.
pub const CAP: u32 = 0x00;
pub const VS: u32 = 0x08;
pub const CC: u32 = 0x14;
pub const CSTS: u32 = 0x1c;

/// A status: code type in bits 10:8, code in bits 7:0, "do not retry" in bit 14.
pub type Status = u16;

pub const SUCCESS: Status = 0;
const DO_NOT_RETRY: Status = 1 << 14;
pub const INVALID_OPCODE: Status = DO_NOT_RETRY | 0x01;
pub const INVALID_FIELD: Status = DO_NOT_RETRY | 0x02;
pub const TRANSFER_ERROR: Status = 0x04;
pub const INVALID_NAMESPACE: Status = DO_NOT_RETRY | 0x0b;
pub const SEQUENCE_ERROR: Status = DO_NOT_RETRY | 0x0c;
pub const SGL_LENGTH_INVALID: Status = DO_NOT_RETRY | 0x0f;
pub const SGL_TYPE_INVALID: Status = DO_NOT_RETRY | 0x11;
pub const LBA_OUT_OF_RANGE: Status = DO_NOT_RETRY | 0x80;
pub const TOO_MANY_EVENT_REQUESTS: Status = DO_NOT_RETRY | 0x105;
pub const INVALID_LOG_PAGE: Status = DO_NOT_RETRY | 0x109;
pub const CONNECT_INVALID_PARAMETERS: Status = DO_NOT_RETRY | 0x182;
pub const CONNECT_INVALID_HOST: Status = DO_NOT_RETRY | 0x184;

pub fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

pub fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

pub fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// Writes the bytes of a field.
pub fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

/// The direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    None,
    /// The target fetches the data with RDMA READ, or finds it in the capsule.
    ToTarget,
    /// The target writes the data with RDMA WRITE.
    ToHost,
}

/// An entry of a submission queue.
#[derive(Clone, Copy)]
pub struct Command(pub [u8; COMMAND]);

impl Command {
    /// A command whose data is described by an SGL: at first, one without bytes.
    pub fn new(opcode: u8, namespace: u32) -> Command {
        const HAS_SGL: u8 = 0x40;
        let mut bytes = [0; COMMAND];
        (bytes[0], bytes[1], bytes[39]) = (opcode, HAS_SGL, Kind::Keyed as u8);
        Command(bytes).with(1, namespace)
    }

    /// A Fabrics command.
    pub fn fabrics(kind: u8) -> Command {
        Command::new(FABRICS, kind.into())
    }

    /// Sets the field at this offset.
    pub fn set(mut self, at: usize, field: &[u8]) -> Command {
        put(&mut self.0, at, field);
        self
    }

    /// Sets command dword `n`.
    pub fn with(self, n: usize, dword: u32) -> Command {
        self.set(4 * n, &dword.to_le_bytes())
    }

    /// Sets the location of the data.
    pub fn with_sgl(self, sgl: Sgl) -> Command {
        let Sgl { kind, addr, len, key } = sgl;
        // Three bytes of the length of keyed data. Data in a capsule is shorter.
        let command = self.set(24, &addr.to_le_bytes()).with(8, len as u32);
        command.set(35, &key.to_le_bytes()).set(39, &[kind as u8])
    }

    /// The command at the start of a capsule.
    pub fn parse(capsule: &[u8]) -> Result<Command> {
        let command = capsule.first_chunk().ok_or("a capsule without a whole command")?;
        Ok(Command(*command))
    }

    pub fn opcode(&self) -> u8 {
        self.0[0]
    }

    /// The command identifier, which the completion returns.
    pub fn id(&self) -> u16 {
        u16_at(&self.0, 2)
    }

    /// The type of a Fabrics command.
    pub fn fabrics_type(&self) -> u8 {
        self.0[4]
    }

    /// Command dword `n`. Dword 1 is the namespace, and 10 to 15 are specific to the command.
    pub fn dword(&self, n: usize) -> u32 {
        u32_at(&self.0, 4 * n)
    }

    /// The low two bits of an opcode, and of the type of a Fabrics command.
    pub fn direction(&self) -> Direction {
        let code = if self.opcode() == FABRICS { self.fabrics_type() } else { self.opcode() };
        match code & 3 {
            1 => Direction::ToTarget,
            2 => Direction::ToHost,
            _ => Direction::None,
        }
    }
}

/// A data block descriptor: the location of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sgl {
    pub kind: Kind,
    /// An address of the host, or the bytes in the capsule between the command and the data.
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    /// The key of the host's memory.
    pub key: u32,
}

/// The type of a descriptor, with its subtype.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    InCapsule = 0x01,
    Keyed = 0x40,
    /// With a key that the completion of the command invalidates.
    ToInvalidate = 0x4f,
}

impl Sgl {
    /// The descriptor of a command, whose data has at most `max` bytes.
    pub fn parse(command: &Command, max: usize) -> std::result::Result<Sgl, Status> {
        let bytes = &command.0[24..40];
        let kinds = [Kind::InCapsule, Kind::Keyed, Kind::ToInvalidate];
        let kind = kinds.into_iter().find(|&kind| kind as u8 == bytes[15]);
        let kind = kind.ok_or(SGL_TYPE_INVALID)?;
        let (addr, len) = (u64_at(bytes, 0), u32_at(bytes, 8));
        let (len, key) = match kind {
            Kind::InCapsule => (len, 0),
            _ => (len & 0xff_ffff, u32_at(bytes, 11)),
        };
        if len as usize > max || addr.checked_add(len.into()).is_none() {
            return Err(SGL_LENGTH_INVALID);
        }
        Ok(Sgl { kind, addr, len: len as usize, key })
    }
}

/// An entry of a completion queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    pub result: u64,
    /// The head of the submission queue.
    pub head: u16,
    pub command: u16,
    pub status: Status,
}

impl Completion {
    pub fn to_bytes(self) -> [u8; COMPLETION] {
        let mut bytes = [0; COMPLETION];
        put(&mut bytes, 0, &self.result.to_le_bytes());
        put(&mut bytes, 8, &self.head.to_le_bytes());
        put(&mut bytes, 12, &self.command.to_le_bytes());
        // Bit 0 is the phase, which Fabrics do not use.
        put(&mut bytes, 14, &(self.status << 1).to_le_bytes());
        bytes
    }

    pub fn parse(bytes: &[u8]) -> Result<Completion> {
        let bytes: &[u8; COMPLETION] =
            bytes.try_into().map_err(|_| "a completion of another size")?;
        let (head, command) = (u16_at(bytes, 8), u16_at(bytes, 12));
        Ok(Completion { result: u64_at(bytes, 0), head, command, status: u16_at(bytes, 14) >> 1 })
    }
}

/// The data of Connect.
#[derive(Debug, PartialEq, Eq)]
pub struct ConnectData {
    pub host_id: [u8; 16],
    pub controller: u16,
    pub subsystem: String,
    pub host: String,
}

impl ConnectData {
    pub fn parse(data: &[u8]) -> std::result::Result<ConnectData, Status> {
        let data: &[u8; CONNECT_DATA] = data.try_into().map_err(|_| SGL_LENGTH_INVALID)?;
        let mut host_id = [0; 16];
        host_id.copy_from_slice(&data[..16]);
        let controller = u16_at(data, 16);
        let (subsystem, host) =
            (name(&data[256..][..NQN_FIELD])?, name(&data[512..][..NQN_FIELD])?);
        Ok(ConnectData { host_id, controller, subsystem, host })
    }

    /// The names have at most 223 bytes.
    pub fn to_bytes(&self) -> [u8; CONNECT_DATA] {
        let mut data = [0; CONNECT_DATA];
        put(&mut data, 0, &self.host_id);
        put(&mut data, 16, &self.controller.to_le_bytes());
        put(&mut data, 256, self.subsystem.as_bytes());
        put(&mut data, 512, self.host.as_bytes());
        data
    }
}

/// Whether a text can be an NVMe qualified name, for an option.
#[allow(clippy::ptr_arg)] // an option is a `String`
pub fn is_nqn(name: &String) -> bool {
    (1..=223).contains(&name.len())
}
pub const IS_NQN: &str = "must have 1 to 223 bytes";

/// A name that ends with a zero.
fn name(field: &[u8]) -> std::result::Result<String, Status> {
    let len = field.iter().position(|&byte| byte == 0).ok_or(CONNECT_INVALID_PARAMETERS)?;
    let name = std::str::from_utf8(&field[..len]).map_err(|_| CONNECT_INVALID_PARAMETERS)?;
    Ok(name.to_owned())
}

/// The private data of a connection request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RdmaRequest {
    /// Queue 0 is the admin queue.
    pub qid: u16,
    /// Commands that the host may have outstanding.
    pub sq_size: u16,
}

/// The reason for rejecting a connection. The numbers are the status in the private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    PrivateDataLength = 1,
    RecordFormat = 2,
    SubmissionQueueSize = 4,
    ReceiveQueueSize = 5,
}

/// Bytes of the private data of requests and acceptances.
pub const PRIVATE_DATA: usize = 32;

impl RdmaRequest {
    /// The private data may be padded.
    pub fn parse(data: &[u8]) -> std::result::Result<RdmaRequest, Refusal> {
        let data = data.get(..PRIVATE_DATA).ok_or(Refusal::PrivateDataLength)?;
        if u16_at(data, 0) != 0 {
            return Err(Refusal::RecordFormat);
        }
        // The size of the receive queue counts from 1, the size of the send queue from 0.
        let (qid, cq_size, sq_last) = (u16_at(data, 2), u16_at(data, 4), u16_at(data, 6));
        if !(1..MAX_ENTRIES).contains(&sq_last) {
            return Err(Refusal::SubmissionQueueSize);
        }
        if cq_size <= sq_last {
            return Err(Refusal::ReceiveQueueSize);
        }
        Ok(RdmaRequest { qid, sq_size: sq_last + 1 })
    }

    pub fn private_data(self) -> PrivateData<56> {
        let mut data = [0; PRIVATE_DATA];
        put(&mut data, 2, &self.qid.to_le_bytes());
        put(&mut data, 4, &self.sq_size.to_le_bytes());
        put(&mut data, 6, &(self.sq_size - 1).to_le_bytes());
        PrivateData::of(&data)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A command with these bytes at these places.
    fn command(fields: &[(usize, &[u8])]) -> Command {
        let mut bytes = [0; COMMAND];
        for &(at, field) in fields {
            put(&mut bytes, at, field);
        }
        Command(bytes)
    }

    #[test]
    fn a_keyed_descriptor_is_read() {
        let sgl = [&[0x10, 0x20, 0, 0, 0, 0, 0, 0x7f][..], &[0, 4, 0], &[1, 2, 3, 4], &[0x4f]];
        let sgl = sgl.concat();
        let parsed = Sgl::parse(&command(&[(24, &sgl)]), 1024).expect("keyed");
        let addr = 0x7f00_0000_0000_2010;
        let keyed = |kind| Sgl { kind, addr, len: 1024, key: 0x0403_0201 };
        assert_eq!(parsed, keyed(Kind::ToInvalidate));
        assert_eq!(Command::new(READ, 1).with_sgl(parsed).0[24..40], sgl);
        assert_eq!(Sgl::parse(&command(&[(24, &sgl)]), 1023), Err(SGL_LENGTH_INVALID));
        let plain = Sgl::parse(&command(&[(24, &sgl), (39, &[0x40])]), 1024);
        assert_eq!(plain, Ok(keyed(Kind::Keyed)));
        for other in [0x00, 0x30, 0x41, 0xf4] {
            let parsed = Sgl::parse(&command(&[(24, &sgl), (39, &[other])]), 1024);
            assert_eq!(parsed, Err(SGL_TYPE_INVALID));
        }
        let beyond = command(&[(24, &sgl), (24, &[0xff; 8])]);
        assert_eq!(Sgl::parse(&beyond, 1024), Err(SGL_LENGTH_INVALID));
    }

    #[test]
    fn an_offset_into_the_capsule_is_read() {
        let sgl = [&[16, 0, 0, 0, 0, 0, 0, 0][..], &[0, 2, 0, 0], &[0, 0, 0], &[1]].concat();
        let parsed = Sgl::parse(&command(&[(24, &sgl)]), 512).expect("in the capsule");
        assert_eq!(parsed, Sgl { kind: Kind::InCapsule, addr: 16, len: 512, key: 0 });
        assert_eq!(Command::new(WRITE, 1).with_sgl(parsed).0[24..40], sgl);
        assert_eq!(Sgl::parse(&command(&[(24, &sgl)]), 511), Err(SGL_LENGTH_INVALID));
    }

    #[test]
    fn a_capsule_without_a_command_is_refused() {
        assert!(Command::parse(&[0; 64]).is_ok() && Command::parse(&[0; 4096]).is_ok());
        for len in [0, 63] {
            assert!(Command::parse(&vec![0; len]).is_err(), "{len}");
        }
    }

    #[test]
    fn private_data_is_checked() {
        let data = |format: u16, recv: u16, send: u16| {
            let fields = [format, 1, recv, send].map(u16::to_le_bytes).concat();
            [&fields[..], &[0; 48]].concat()
        };
        let asked = RdmaRequest { qid: 1, sq_size: 32 };
        assert_eq!(RdmaRequest::parse(&data(0, 32, 31)), Ok(asked));
        assert_eq!(RdmaRequest::parse(&asked.private_data()), Ok(asked));
        assert_eq!(RdmaRequest::parse(&data(1, 32, 31)), Err(Refusal::RecordFormat));
        assert_eq!(RdmaRequest::parse(&data(0, 31, 31)), Err(Refusal::ReceiveQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 1, 0)), Err(Refusal::SubmissionQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 999, 128)), Err(Refusal::SubmissionQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 32, 31)[..31]), Err(Refusal::PrivateDataLength));
    }

    #[test]
    fn a_name_must_end() {
        let mut data = vec![0; CONNECT_DATA];
        put(&mut data, 16, &[0xff, 0xff]);
        put(&mut data, 256, b"nqn.a");
        put(&mut data, 512, b"nqn.host");
        let parsed = ConnectData::parse(&data).expect("whole");
        assert_eq!((parsed.controller, &*parsed.subsystem), (0xffff, "nqn.a"));
        assert_eq!(parsed.host, "nqn.host");
        assert_eq!(parsed.to_bytes()[..], data);
        assert_eq!(ConnectData::parse(&data[..1023]), Err(SGL_LENGTH_INVALID));
        data[512..768].fill(b'x');
        assert_eq!(ConnectData::parse(&data), Err(CONNECT_INVALID_PARAMETERS));
    }

    #[test]
    fn a_completion_has_its_fields_in_place() {
        let completion = Completion { result: 0x0102, head: 3, command: 0x0405, status: 0x4002 };
        let bytes = completion.to_bytes();
        assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 4, 4, 0x80]);
        assert_eq!(Completion::parse(&bytes).expect("whole"), completion);
        assert!(Completion::parse(&bytes[..15]).is_err());
    }
}
