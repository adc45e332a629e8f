//! What the two machines say to each other: JSON, a line a message. The one that leads says what to
//! do, the other answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::case::{Case, Whose};
use super::facts::Facts;
use super::programs::Suite;

/// The longest that a machine is silent, while the suite runs there.
const PATIENCE: Duration = Duration::from_secs(3600);
/// `devinfo` of a device with many ports and GIDs is far below this.
const LONGEST: u64 = 4 << 20;

#[derive(Serialize, Deserialize)]
pub enum Command {
    /// What the machine is, and what devinfo says of its device.
    Tell,
    Conformance {
        only: Option<String>,
    },
    /// Starts the server's end of a measurement.
    Serve {
        case: Case,
        whose: Whose,
        iterations: u32,
    },
    /// Waits for that to end.
    End,
    /// That was all.
    Bye {
        report: String,
    },
}

#[derive(Serialize, Deserialize)]
pub enum Answer {
    Told(Facts, String),
    Conformed(Suite),
    /// Somebody listens, or why nobody does.
    Serves(Result<(), String>),
    Ended(Result<(), String>),
}

pub struct Link {
    reader: BufReader<TcpStream>,
    writer: TcpStream,
}

impl Link {
    pub fn new(stream: TcpStream) -> Result<Link> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let reader = BufReader::new(stream.try_clone()?);
        Ok(Link { reader, writer: stream })
    }

    pub fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(message)?;
        line.push('\n');
        self.writer.write_all(line.as_bytes()).context("the other machine is gone")
    }

    pub fn hear<M: DeserializeOwned>(&mut self) -> Result<M> {
        let mut line = String::new();
        let read = self.reader.by_ref().take(LONGEST).read_line(&mut line);
        read.context("the other machine is silent")?;
        ensure!(line.ends_with('\n'), "the other machine is gone; it says why");
        serde_json::from_str(&line).context("the other machine is not of this version")
    }

    pub fn ask(&mut self, command: &Command) -> Result<Answer> {
        self.say(command)?;
        self.hear()
    }
}

/// The other machine answered something else.
pub fn strange<T>() -> Result<T> {
    bail!("the other machine answers what it was not asked: it is not of this version")
}
