//! Byte layouts, all little-endian. The bytes come from a host that is not trusted: a length or a
//! value that does not fit is an error.

use std::fmt;

use proverbs::cm::{AcceptData, PrivateData, RejectData};

use crate::cm_common::Result;

/// Bytes of a command without data, and of a completion.
pub const COMMAND: usize = 64;
pub const COMPLETION: usize = 16;
/// Bytes of the data of Connect, and of each data structure of Identify.
pub const CONNECT_DATA: usize = 1024;
pub const IDENTIFY_DATA: usize = 4096;
/// Bytes of an NVMe qualified name's field.
pub const NQN_FIELD: usize = 256;
/// The maximum number of entries of a queue.
pub const MAX_ENTRIES: u16 = 128;

/// A status: code type in bits 10:8, code in bits 7:0, "do not retry" in bit 14.
pub type Status = u16;

pub const SUCCESS: Status = 0;
const DO_NOT_RETRY: Status = 1 << 14;
pub const INVALID_OPCODE: Status = DO_NOT_RETRY | 0x01;
pub const INVALID_FIELD: Status = DO_NOT_RETRY | 0x02;
pub const INVALID_NAMESPACE: Status = DO_NOT_RETRY | 0x0b;
pub const SEQUENCE_ERROR: Status = DO_NOT_RETRY | 0x0c;
pub const SGL_LENGTH_INVALID: Status = DO_NOT_RETRY | 0x0f;
pub const SGL_TYPE_INVALID: Status = DO_NOT_RETRY | 0x11;
pub const LBA_OUT_OF_RANGE: Status = DO_NOT_RETRY | 0x80;
pub const TOO_MANY_EVENT_REQUESTS: Status = DO_NOT_RETRY | 0x105;
pub const INVALID_LOG_PAGE: Status = DO_NOT_RETRY | 0x109;
pub const CONNECT_INVALID_PARAMETERS: Status = DO_NOT_RETRY | 0x182;
pub const CONNECT_INVALID_HOST: Status = DO_NOT_RETRY | 0x184;

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
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
    /// The target fetches the data with RDMA READ.
    ToTarget,
    /// The target writes the data with RDMA WRITE.
    ToHost,
}

/// An entry of a submission queue.
pub struct Command([u8; COMMAND]);

/// Opcode of all Fabrics commands, whose type is in another byte.
pub const FABRICS: u8 = 0x7f;

impl Command {
    /// The command in a capsule.
    pub fn parse(capsule: &[u8]) -> Result<Command> {
        let Ok(command) = capsule.try_into() else {
            let len = capsule.len();
            return Err(format!("a capsule has {len} bytes, expected {COMMAND}").into());
        };
        Ok(Command(command))
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

    pub fn namespace(&self) -> u32 {
        u32_at(&self.0, 4)
    }

    /// Command dword `n`, from 10 to 15.
    pub fn dword(&self, n: usize) -> u32 {
        u32_at(&self.0, 4 * n)
    }

    /// Command dwords `n` and `n + 1`.
    pub fn qword(&self, n: usize) -> u64 {
        u64_at(&self.0, 4 * n)
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

impl fmt::Debug for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.opcode() {
            FABRICS => write!(f, "Fabrics {:#04x}", self.fabrics_type())?,
            opcode => write!(f, "opcode {opcode:#04x}")?,
        }
        write!(f, " id {:#06x}", self.id())?;
        match KeyedSgl::parse(self, usize::MAX) {
            Ok(sgl) if sgl.len > 0 => write!(f, ", {sgl:?}"),
            _ => Ok(()),
        }
    }
}

/// A keyed SGL data block descriptor: the location of the data in the host's memory.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyedSgl {
    pub addr: u64,
    /// Bytes.
    pub len: usize,
    pub key: u32,
    /// Whether the host requests that the completion invalidate the key.
    pub invalidate: bool,
}

impl KeyedSgl {
    /// The descriptor of a command, whose data has at most `max` bytes.
    pub fn parse(command: &Command, max: usize) -> std::result::Result<KeyedSgl, Status> {
        const KEYED: u8 = 4;
        let bytes = &command.0[24..40];
        let invalidate = match (bytes[15] >> 4, bytes[15] & 0xf) {
            (KEYED, 0x0) => false,
            (KEYED, 0xf) => true,
            _ => return Err(SGL_TYPE_INVALID),
        };
        let (addr, len) = (u64_at(bytes, 0), u32_at(bytes, 8) & 0xff_ffff);
        if len as usize > max || addr.checked_add(len.into()).is_none() {
            return Err(SGL_LENGTH_INVALID);
        }
        Ok(KeyedSgl { addr, len: len as usize, key: u32_at(bytes, 11), invalidate })
    }
}

impl fmt::Debug for KeyedSgl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KeyedSgl { addr, len, key, invalidate } = self;
        let invalidate = if *invalidate { ", to be invalidated" } else { "" };
        write!(f, "{len} bytes at {addr:#x}, key {key:#x}{invalidate}")
    }
}

/// An entry of a completion queue.
#[derive(Clone, Copy, Debug)]
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
        Ok(ConnectData {
            host_id,
            controller: u16_at(data, 16),
            subsystem: name(&data[256..][..NQN_FIELD])?,
            host: name(&data[512..][..NQN_FIELD])?,
        })
    }
}

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
const PRIVATE_DATA: usize = 32;

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
}

/// The private data of an acceptance: the completion queue's size.
pub fn rdma_accept(cq_size: u16) -> AcceptData {
    let mut data = [0; PRIVATE_DATA];
    put(&mut data, 2, &cq_size.to_le_bytes());
    PrivateData::of(&data)
}

/// The private data of a rejection.
pub fn rdma_reject(refusal: Refusal) -> RejectData {
    let mut data = [0; 4];
    put(&mut data, 2, &(refusal as u16).to_le_bytes());
    PrivateData::of(&data)
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A command with these bytes at these places.
    pub fn command(fields: &[(usize, &[u8])]) -> Command {
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
        let parsed = KeyedSgl::parse(&command(&[(24, &sgl)]), 1024).expect("keyed");
        let addr = 0x7f00_0000_0000_2010;
        assert_eq!(parsed, KeyedSgl { addr, len: 1024, key: 0x0403_0201, invalidate: true });
        assert_eq!(KeyedSgl::parse(&command(&[(24, &sgl)]), 1023), Err(SGL_LENGTH_INVALID));
        let plain = KeyedSgl::parse(&command(&[(24, &sgl), (39, &[0x40])]), 1024);
        assert!(!plain.expect("keyed").invalidate);
        for other in [0x00, 0x01, 0x30, 0x41, 0xf4] {
            let parsed = KeyedSgl::parse(&command(&[(24, &sgl), (39, &[other])]), 1024);
            assert_eq!(parsed, Err(SGL_TYPE_INVALID));
        }
        let beyond = command(&[(24, &sgl), (24, &[0xff; 8])]);
        assert_eq!(KeyedSgl::parse(&beyond, 1024), Err(SGL_LENGTH_INVALID));
    }

    #[test]
    fn a_capsule_of_another_length_is_refused() {
        assert!(Command::parse(&[0; 64]).is_ok());
        for len in [0, 63, 65, 4096] {
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
        assert_eq!(RdmaRequest::parse(&data(1, 32, 31)), Err(Refusal::RecordFormat));
        assert_eq!(RdmaRequest::parse(&data(0, 31, 31)), Err(Refusal::ReceiveQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 1, 0)), Err(Refusal::SubmissionQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 999, 128)), Err(Refusal::SubmissionQueueSize));
        assert_eq!(RdmaRequest::parse(&data(0, 32, 31)[..31]), Err(Refusal::PrivateDataLength));
        assert_eq!(rdma_reject(Refusal::RecordFormat)[..], [0, 0, 2, 0]);
        assert_eq!(rdma_accept(0x120)[..4], [0, 0, 0x20, 1]);
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
        assert_eq!(ConnectData::parse(&data[..1023]), Err(SGL_LENGTH_INVALID));
        data[512..768].fill(b'x');
        assert_eq!(ConnectData::parse(&data), Err(CONNECT_INVALID_PARAMETERS));
    }

    #[test]
    fn a_completion_has_its_fields_in_place() {
        let completion = Completion { result: 0x0102, head: 3, command: 0x0405, status: 0x4002 };
        let bytes = completion.to_bytes();
        assert_eq!(bytes, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 5, 4, 4, 0x80]);
    }
}
