//! The control connection between the two ends: JSON, one line per message, over TCP or a socket
//! pair.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::Result;
use crate::patience::patience;

/// A peer whose message does not arrive within this time is considered dead.
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(30)));

/// The maximum length of a message from the peer.
const LONGEST: usize = 4096;

/// A stream to the server.
pub fn connect(server: &str, port: u16) -> Result<TcpStream> {
    let stream = TcpStream::connect((server, port))
        .map_err(|error| format!("cannot connect to {server}, TCP port {port}: {error}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Listens, calls `listening`, accepts one connection, and stops listening.
pub fn accept(port: u16, listening: impl FnOnce()) -> Result<TcpStream> {
    // IPv6's wildcard takes IPv4 too, where there is IPv6.
    let any: [SocketAddr; 2] =
        [(Ipv6Addr::UNSPECIFIED, port).into(), (Ipv4Addr::UNSPECIFIED, port).into()];
    let listener = TcpListener::bind(&any[..])
        .map_err(|error| format!("cannot listen on TCP port {port}: {error}"))?;
    listening();
    let stream = listener.accept()?.0;
    stream.set_nodelay(true)?;
    Ok(stream)
}

pub struct Link {
    reader: BufReader<UnixStream>,
    writer: UnixStream,
}

impl Link {
    pub fn pair() -> Result<(Link, Link)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Link::new(one)?, Link::new(other)?))
    }

    pub fn tcp(stream: TcpStream) -> Result<Link> {
        // From here on all stream sockets work the same.
        Link::new(UnixStream::from(OwnedFd::from(stream)))
    }

    fn new(stream: UnixStream) -> Result<Link> {
        stream.set_read_timeout(Some(*PATIENCE))?;
        // One byte, because the message that `watch` waits for may follow directly.
        Ok(Link { reader: BufReader::with_capacity(1, stream.try_clone()?), writer: stream })
    }

    pub fn send(&mut self, message: &Value) -> Result<()> {
        let line = format!("{message}\n");
        let sent = self.writer.write_all(line.as_bytes());
        sent.map_err(|error| format!("cannot write to the peer: {error}").into())
    }

    pub fn recv(&mut self) -> Result<Value> {
        Ok(read(&mut self.reader)?)
    }

    /// Waits until both ends have reached this point.
    pub fn barrier(&mut self, at: &str) -> Result<()> {
        self.send(&Value::from(at))?;
        match self.recv()? {
            Value::String(theirs) if theirs == at => Ok(()),
            other => Err(format!("the peer is at {other}, this end at \"{at}\"").into()),
        }
    }

    /// A receiver for the peer's next message, for an end that is busy in the meantime.
    pub fn watch(&self) -> Result<mpsc::Receiver<std::result::Result<Value, String>>> {
        let stream = self.writer.try_clone()?;
        // The peer sends it when its work is done, which may take long. None of it is in our
        // buffer, whose size is one byte.
        stream.set_read_timeout(None)?;
        let (tell, told) = mpsc::channel();
        thread::spawn(move || {
            // Later messages are not for this reader.
            let said = read(&mut BufReader::with_capacity(1, &stream));
            let patience = stream.set_read_timeout(Some(*PATIENCE));
            tell.send(said.and_then(|value| match patience {
                Ok(()) => Ok(value),
                Err(error) => Err(format!("cannot read from the peer any more: {error}")),
            }))
        });
        Ok(told)
    }
}

fn read(reader: &mut impl BufRead) -> std::result::Result<Value, String> {
    let mut line = Vec::new();
    let mut limited = std::io::Read::take(reader, LONGEST as u64);
    limited
        .read_until(b'\n', &mut line)
        .map_err(|error| format!("no message from the peer: {error}"))?;
    if line.is_empty() {
        return Err("the peer closed the connection: see its output".into());
    }
    serde_json::from_slice(&line).map_err(|error| {
        let text = line.escape_ascii();
        format!("the peer is not this program: \"{text}\" is not JSON ({error})")
    })
}
