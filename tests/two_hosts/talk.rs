//! The control connection: TCP, which survives the fabric's faults.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::Result;
use crate::patience::long;

pub struct Talk(pub TcpStream);

impl Talk {
    /// Host 1 listens, host 2 connects until it succeeds.
    pub fn new(host: u8, peer: &str, port: u16) -> Result<Talk> {
        let began = Instant::now();
        let stream = if host == 1 {
            let listener = TcpListener::bind(("0.0.0.0", port))?;
            listener.set_nonblocking(true)?;
            patiently(began, || Ok(listener.accept()?.0))?
        } else {
            patiently(began, || TcpStream::connect((peer, port)))?
        };
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(long()))?;
        Ok(Talk(stream))
    }

    pub fn say(&mut self, number: u64) -> Result<()> {
        Ok(self.0.write_all(&number.to_be_bytes())?)
    }

    pub fn hear(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes).map_err(|error| format!("the peer is silent: {error}"))?;
        Ok(u64::from_be_bytes(bytes))
    }

    /// The peer's next message, if it has arrived.
    pub fn overhear(&mut self) -> Result<Option<u64>> {
        self.0.set_nonblocking(true)?;
        let any = self.0.peek(&mut [0]);
        self.0.set_nonblocking(false)?;
        match any {
            Ok(_) => self.hear().map(Some),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Retries until it works. There is nothing to wait on: the other host is not up yet.
fn patiently<T>(began: Instant, attempt: impl Fn() -> std::io::Result<T>) -> Result<T> {
    loop {
        match attempt() {
            Ok(value) => return Ok(value),
            Err(error) if began.elapsed() > long() => {
                return Err(format!("the other host is not up: {error}").into());
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}
