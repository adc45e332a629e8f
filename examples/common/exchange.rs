//! The exchange of records: who writes when, as the C programs have it.
//!
//! The client writes its records; the server reads them, **connects**, and writes its own; the
//! client says `done` and connects. So the server can receive before the client can send.

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::LazyLock;
use std::time::Duration;

use super::patience::patience;
use super::record::{Record, WIRE_LEN};
use super::{Result, record};

/// The client sends first, here and afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Server,
}

/// How the two ends talk before they have queue pairs.
pub enum Link {
    /// `server` is `None` on the server itself.
    Tcp { server: Option<String>, port: u16 },
    /// Within this process.
    Here(UnixStream),
}

/// A peer that says nothing for so long says nothing more.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(10)));

/// The last word of the client, its NUL included.
const DONE: &[u8] = b"done\0";

/// Exchanges records and connects in between; `wire` is how many records go each way, the ones
/// beyond `mine` unused.
pub fn exchange<Q>(
    link: &Link,
    role: Role,
    mine: &[Record],
    wire: usize,
    connect: impl FnOnce(&[Record]) -> Result<Q>,
) -> Result<Q> {
    match link {
        Link::Here(stream) => {
            stream.set_read_timeout(Some(*PATIENCE))?;
            talk(stream, role, mine, wire, connect)
        }
        Link::Tcp { server, port } => {
            let stream = match server {
                Some(host) => TcpStream::connect((host.as_str(), *port)).map_err(|error| {
                    format!("cannot connect to {host}, TCP port {port}: {error}")
                })?,
                None => accept(*port)
                    .map_err(|error| format!("cannot listen on TCP port {port}: {error}"))?,
            };
            stream.set_read_timeout(Some(*PATIENCE))?;
            talk(stream, role, mine, wire, connect)
        }
    }
}

/// One connection; then nobody listens any more.
fn accept(port: u16) -> std::io::Result<TcpStream> {
    // IPv6's wildcard takes IPv4 too, where there is IPv6.
    let any: [SocketAddr; 2] =
        [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    Ok(TcpListener::bind(&any[..])?.accept()?.0)
}

fn talk<S: Read + Write, Q>(
    mut stream: S,
    role: Role,
    mine: &[Record],
    wire: usize,
    connect: impl FnOnce(&[Record]) -> Result<Q>,
) -> Result<Q> {
    match role {
        Role::Server => {
            let theirs = read_records(&mut stream, mine.len(), wire)?;
            let queues = connect(&theirs)?;
            write_records(&mut stream, mine, wire)?;
            let mut word = [0; DONE.len()];
            read(&mut stream, &mut word, "its \"done\"")?;
            if word != DONE {
                let text = word.escape_ascii();
                return Err(format!("the peer said \"{text}\" instead of \"done\"").into());
            }
            Ok(queues)
        }
        Role::Client => {
            write_records(&mut stream, mine, wire)?;
            let theirs = read_records(&mut stream, mine.len(), wire)?;
            write(&mut stream, DONE)?;
            drop(stream);
            connect(&theirs)
        }
    }
}

/// In one write: the C server reads a record with one read.
fn write_records(stream: &mut impl Write, mine: &[Record], wire: usize) -> Result<()> {
    let mut bytes: Vec<u8> = mine.iter().flat_map(|record| record.to_wire()).collect();
    let unused = record::Record::unused()?.to_wire();
    (mine.len()..wire).for_each(|_| bytes.extend_from_slice(&unused));
    write(stream, &bytes)
}

/// The peer's records, of which as many must be in use as here.
fn read_records(stream: &mut impl Read, used: usize, wire: usize) -> Result<Vec<Record>> {
    let mut records = Vec::with_capacity(wire);
    for number in 1..=wire {
        let mut bytes = [0; WIRE_LEN];
        read(stream, &mut bytes, &format!("record {number} of {wire}"))?;
        records.push(Record::from_wire(&bytes)?);
    }
    let theirs = records.iter().take_while(|record| !record.is_unused()).count();
    if theirs != used {
        return Err(match theirs {
            0 => "the peer's record names no queue pair".into(),
            _ => format!("the peer has {theirs} queue pairs, this end {used}: use the same -q"),
        }
        .into());
    }
    records.truncate(used);
    Ok(records)
}

fn write(stream: &mut impl Write, bytes: &[u8]) -> Result<()> {
    stream.write_all(bytes).map_err(|error| format!("cannot write to the peer: {error}").into())
}

/// Reads exactly `bytes`, or says how far it came.
fn read(stream: &mut impl Read, bytes: &mut [u8], what: &str) -> Result<()> {
    let mut at = 0;
    while at < bytes.len() {
        match stream.read(&mut bytes[at..]) {
            Ok(0) => {
                let all = bytes.len();
                return Err(
                    format!("the peer hung up after {at} of the {all} bytes of {what}").into()
                );
            }
            Ok(count) => at += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                let (all, time) = (bytes.len(), PATIENCE.as_secs());
                let why = format!(
                    "the peer sent {at} of the {all} bytes of {what}, nothing for {time} s"
                );
                return Err(why.into());
            }
            Err(error) => return Err(format!("cannot read {what} from the peer: {error}").into()),
        }
    }
    Ok(())
}
