//! The protocol between two ends of perftest, over TCP or, with -R, rdma_cm. Each step has the same
//! number of bytes in both directions. The client writes and then reads; the server reads and then
//! writes. Every wait has a timeout.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proverbs::bounded::Mtu;

use crate::meet::Meeting;
use crate::patience::patience;
use crate::perftest::{
    KEYS_LEN, Keys, Likeness, RECORD_LEN, Rates, TRIED, VERSION, digit, likeness, text_of,
};
use crate::words::Words;
use crate::{Result, Role};

/// A step takes at most this long. (Between two steps, perftest calibrates its clock.)
static PATIENCE: LazyLock<Duration> = LazyLock::new(|| patience(Duration::from_secs(60)));

/// The timeout of the step after the traffic, during which the other end is busy.
const TRAFFIC: Duration = Duration::from_secs(600);

/// Messages of up to half of this size use successive cache lines of an area of this size.
const CYCLE: u32 = 4096;

/// The largest area of this kind that a peer may request.
const LARGEST_CYCLE: u32 = 1 << 24;

const CACHE_LINE: u32 = 64;

/// A connection with a program of perftest.
pub struct Exchange {
    carrier: Carrier,
    role: Role,
}

enum Carrier {
    Tcp(TcpStream),
    /// Each message is a SEND.
    Cm(Box<Words>),
}

impl Exchange {
    pub fn tcp(stream: TcpStream, role: Role) -> Exchange {
        Exchange { carrier: Carrier::Tcp(stream), role }
    }

    /// Through rdma_cm, which connects again for the traffic.
    pub fn cm(meeting: &Meeting, role: Role) -> Result<Exchange> {
        let words = Box::new(meeting.words(KEYS_LEN)?);
        Ok(Exchange { carrier: Carrier::Cm(words), role })
    }

    /// Exchanges versions, the area for small messages, and MTUs. Returns the size of the area and
    /// the MTU of the two.
    pub fn hello(&mut self, mtu: Mtu) -> Result<(u32, Mtu)> {
        let version = self.swap("version", VERSION)?;
        let theirs = text_of(&version);
        match likeness(&version) {
            Likeness::Tried => {}
            Likeness::Untried => {
                eprintln!(
                    "note: the peer is perftest {theirs}; tested versions are {}",
                    TRIED.join(", ")
                );
            }
            Likeness::Stranger => {
                let why = format!("the peer is not perftest 6: its first message is \"{theirs}\"");
                return Err(why.into());
            }
        }
        let cycle = u32::from_be_bytes(self.swap("cycle_buffer", CYCLE.to_be_bytes())?);
        if cycle > LARGEST_CYCLE {
            let why = format!("the peer requests {cycle} bytes for small messages");
            return Err(why.into());
        }
        // Each end rounds up only its own addresses.
        self.swap("cache_line", CACHE_LINE.to_be_bytes())?;
        let theirs = self.swap("MTU", [digit(mtu), 0])?;
        let mut known = [256, 512, 1024, 2048, 4096].into_iter().filter_map(Mtu::from_bytes);
        let theirs = known.find(|&mtu| theirs == [digit(mtu), 0]).ok_or_else(|| {
            format!("the peer's MTU must be 1 to 5, got \"{}\"", theirs.escape_ascii())
        })?;
        Ok((cycle.max(CYCLE), mtu.min(theirs)))
    }

    /// Exchanges the keys. perftest also uses this step to wait for the other end.
    pub fn keys(&mut self, mine: &Keys) -> Result<Keys> {
        self.keys_within(*PATIENCE, "keys", mine)
    }

    /// The same, when the other end may be busy with traffic.
    pub fn keys_after_traffic(&mut self, mine: &Keys) -> Result<Keys> {
        self.keys_within(TRAFFIC, "keys after the traffic", mine)
    }

    /// Waits for the other end without exchanging data. Only with rdma_cm.
    pub fn sign(&mut self, what: &str) -> Result<()> {
        self.swap(what, [0; RECORD_LEN]).map(drop)
    }

    fn keys_within(&mut self, patience: Duration, what: &str, mine: &Keys) -> Result<Keys> {
        match self.carrier {
            Carrier::Tcp(_) => {
                Keys::from_wire(&self.swap_within(patience, what, mine.to_wire())?)
            }
            Carrier::Cm(_) => {
                Keys::from_record(&self.swap_within(patience, what, mine.to_record())?)
            }
        }
    }

    pub fn rates(&mut self, mine: Rates) -> Result<Rates> {
        let mut swap = |what, mine: u64| {
            let theirs = self.swap(what, mine.to_be_bytes())?;
            Ok::<_, Box<dyn std::error::Error>>(u64::from_be_bytes(theirs))
        };
        Ok(Rates {
            size: swap("size", mine.size)?,
            iters: swap("iterations", mine.iters)?,
            peak: f64::from_bits(swap("peak bandwidth", mine.peak.to_bits())?),
            average: f64::from_bits(swap("average bandwidth", mine.average.to_bits())?),
            messages: f64::from_bits(swap("message rate", mine.messages.to_bits())?),
        })
    }

    /// Closes the connection. Over TCP there is a final message, which perftest does not wait for:
    /// it may close the connection before. With rdma_cm, both disconnect.
    pub fn done(self, says_so: bool) -> Result<()> {
        match self.carrier {
            Carrier::Tcp(mut stream) => {
                if says_so {
                    let _ = stream.write_all(b"done\0");
                }
                Ok(())
            }
            Carrier::Cm(words) => words.close(),
        }
    }

    /// Whether there is a message from the peer.
    pub fn has_word(&mut self) -> Result<bool> {
        let stream = match &mut self.carrier {
            Carrier::Tcp(stream) => stream,
            Carrier::Cm(words) => return words.has_word(),
        };
        stream.set_nonblocking(true)?;
        let found = stream.peek(&mut [0]);
        stream.set_nonblocking(false)?;
        match found {
            Ok(0) => Err(hung_up("keys after the traffic")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(format!("cannot read from the peer: {error}").into()),
        }
    }

    fn swap<const N: usize>(&mut self, what: &str, mine: [u8; N]) -> Result<[u8; N]> {
        self.swap_within(*PATIENCE, what, mine)
    }

    fn swap_within<const N: usize>(
        &mut self,
        patience: Duration,
        what: &str,
        mine: [u8; N],
    ) -> Result<[u8; N]> {
        match self.role {
            Role::Client => {
                self.send(what, &mine)?;
                self.recv(patience, what)
            }
            Role::Server => {
                let theirs = self.recv(patience, what)?;
                self.send(what, &mine)?;
                Ok(theirs)
            }
        }
    }

    fn send(&mut self, what: &str, bytes: &[u8]) -> Result<()> {
        let sent = match &mut self.carrier {
            Carrier::Tcp(stream) => stream
                .set_write_timeout(Some(*PATIENCE))
                .and_then(|()| stream.write_all(bytes))
                .map_err(|error| error.into()),
            Carrier::Cm(words) => words.say(bytes, *PATIENCE),
        };
        sent.map_err(|error| format!("cannot send our {what} to the peer: {error}").into())
    }

    fn recv<const N: usize>(&mut self, patience: Duration, what: &str) -> Result<[u8; N]> {
        match &mut self.carrier {
            Carrier::Tcp(stream) => recv(stream, patience, what),
            Carrier::Cm(words) => {
                let word = words.hear(patience);
                let word = word.map_err(|error| format!("the peer's {what}: {error}"))?;
                <[u8; N]>::try_from(&word[..]).map_err(|_| {
                    format!("the peer's {what} has {} bytes instead of {N}", word.len()).into()
                })
            }
        }
    }
}

/// Receives exactly `N` bytes. A peer that sends them one by one does not get more time.
fn recv<const N: usize>(stream: &mut TcpStream, patience: Duration, what: &str) -> Result<[u8; N]> {
    let began = Instant::now();
    let (mut bytes, mut have) = ([0; N], 0);
    while have < N {
        let left = patience.saturating_sub(began.elapsed());
        if left.is_zero() {
            let time = patience.as_secs();
            let why = format!("the peer sent {have} of {N} bytes of its {what} in {time} s");
            return Err(why.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut bytes[have..]) {
            Ok(0) => return Err(hung_up(what)),
            Ok(more) => have += more,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => return Err(format!("cannot read the peer's {what}: {error}").into()),
            },
        }
    }
    Ok(bytes)
}

fn hung_up(what: &str) -> Box<dyn std::error::Error> {
    format!("the peer closed the connection before its {what}: see its output").into()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
        (client, listener.accept().expect("connected").0)
    }

    /// The bytes that a client of `ib_send_lat` 6.06 sends before the first keys.
    const HELLO: &[u8; 26] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\x403\0";

    #[test]
    fn the_server_answers_each_word_with_as_many_bytes() {
        let (mut client, server) = pair();
        client.write_all(HELLO).expect("it listens");
        let mtu = Mtu::from_bytes(4096).expect("an MTU");
        let said = Exchange::tcp(server, Role::Server).hello(mtu).expect("a hello");
        assert_eq!((said.0, said.1.bytes()), (4096, 1024));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("all of it");
        assert_eq!(answer[..24], HELLO[..24]);
        assert_eq!(answer[24..], *b"5\0");
    }

    #[test]
    fn a_hello_that_is_none_is_an_error() {
        let cases: [(usize, &[u8], &str); 5] = [
            (0, b"5.99", "the peer is not perftest 6: its first message is \"5.99\""),
            (16, &[0xff; 4], "the peer requests 4294967295 bytes for small messages"),
            (24, b"6", "the peer's MTU must be 1 to 5, got \"6\\x00\""),
            (24, b"0", "the peer's MTU must be 1 to 5, got \"0\\x00\""),
            (25, b"1", "the peer's MTU must be 1 to 5, got \"31\""),
        ];
        for (at, bytes, why) in cases {
            let mut hello = *HELLO;
            hello[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(refused(&hello), why);
        }
        let cut = refused(&HELLO[..20]);
        assert_eq!(cut, "the peer closed the connection before its cache_line: see its output");
    }

    fn refused(hello: &[u8]) -> String {
        let (mut client, server) = pair();
        client.write_all(hello).expect("it listens");
        client.shutdown(std::net::Shutdown::Write).expect("connected");
        let mtu = Mtu::from_bytes(1024).expect("an MTU");
        let said = Exchange::tcp(server, Role::Server).hello(mtu);
        said.expect_err("no hello").to_string()
    }

    #[test]
    fn a_peer_that_dribbles_has_no_more_time_than_others() {
        let (mut client, mut server) = pair();
        client.write_all(b"6.06").expect("it listens");
        let said = recv::<16>(&mut server, Duration::from_millis(20), "version");
        let why = said.expect_err("4 of 16 bytes").to_string();
        assert_eq!(why, "the peer sent 4 of 16 bytes of its version in 0 s");
    }

    #[test]
    fn rates_arrive_as_they_were_told() {
        let (client, server) = pair();
        let told = Rates { size: 65536, iters: 10, peak: 1.5, average: 1.25, messages: 2e-5 };
        let mut server = Exchange::tcp(server, Role::Server);
        assert!(!server.has_word().expect("connected"));
        let there = thread::spawn(move || {
            let mut client = Exchange::tcp(client, Role::Client);
            client.rates(told).expect("a server answers")
        });
        assert_eq!(server.rates(Rates::default()).expect("a client tells"), told);
        assert_eq!(there.join().expect("no panic"), Rates::default());
        assert!(server.has_word().is_err(), "the client is gone");
    }
}
