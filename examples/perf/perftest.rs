//! perftest's exchange: what `ib_send_lat`, `ib_write_bw` and the others tell each other beside the
//! queue pairs.
//!
//! Each step has as many bytes both ways. The client writes and then reads; the server reads and
//! then writes. Every wait has an end, and what does not look as perftest's own is refused.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use proverbs::bounded::{Mtu, Psn, Qpn};
use proverbs::device::Gid;

use crate::{Result, Role};

/// The TCP port of perftest.
pub const PORT: u16 = 18515;

/// A step takes at most this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// And the step behind the traffic, for which the other end works meanwhile.
const TRAFFIC: Duration = Duration::from_secs(600);

/// Whom perftest takes for its like.
const VERSION: [u8; 16] = *b"6.06\0\0\0\0\0\0\0\0\0\0\0\0";

/// Messages of up to half of this go to one cache line after the other of so many bytes.
pub const CYCLE: u32 = 4096;

/// The largest such area that a peer is given.
const LARGEST_CYCLE: u32 = 1 << 24;

const CACHE_LINE: u32 = 64;

/// Bytes of the keys.
pub const KEYS_LEN: usize = 108;

/// Where a queue pair and its memory are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keys {
    pub lid: u16,
    /// READs and atomics that may be outstanding at this end.
    pub out_reads: u16,
    pub qpn: Qpn,
    pub psn: Psn,
    pub rkey: u32,
    pub address: u64,
    pub gid: Gid,
}

impl Keys {
    /// Hexadecimal, each field with its colon; the last is the number of a shared receive queue,
    /// which is XRC's; a NUL.
    pub fn to_wire(self) -> [u8; KEYS_LEN] {
        let Keys { lid, out_reads, qpn, psn, rkey, address, gid } = self;
        let gid: String = gid.0.iter().map(|byte| format!("{byte:02x}:")).collect();
        let text = format!(
            "{lid:04x}:{out_reads:04x}:{:06x}:{:06x}:{rkey:08x}:{address:016x}:{gid}{:08x}:\0",
            qpn.get(),
            psn.get(),
            0
        );
        let mut wire = [0; KEYS_LEN];
        wire.copy_from_slice(text.as_bytes());
        wire
    }

    pub fn from_wire(wire: &[u8; KEYS_LEN]) -> Result<Keys> {
        parse(wire).ok_or_else(|| {
            let text = wire.escape_ascii();
            format!(
                "the peer's keys are not as perftest {} has them: \"{text}\"",
                text_of(&VERSION)
            )
            .into()
        })
    }
}

fn parse(wire: &[u8; KEYS_LEN]) -> Option<Keys> {
    let text = std::str::from_utf8(wire.strip_suffix(b":\0")?).ok()?;
    let fields: Vec<&str> = text.split(':').collect();
    let [lid, out_reads, qpn, psn, rkey, address, gid @ .., _srqn] = &fields[..] else {
        return None;
    };
    let gid: Option<Vec<u8>> = gid.iter().map(|byte| Some(hex(byte, 2)? as u8)).collect();
    Some(Keys {
        lid: hex(lid, 4)? as u16,
        out_reads: hex(out_reads, 4)? as u16,
        qpn: Qpn::new(hex(qpn, 6)? as u32)?,
        psn: Psn::new(hex(psn, 6)? as u32)?,
        rkey: hex(rkey, 8)? as u32,
        address: hex(address, 16)?,
        gid: Gid(gid?.try_into().ok()?),
    })
}

/// A number of exactly `digits` digits, no sign.
fn hex(text: &str, digits: usize) -> Option<u64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if plain { u64::from_str_radix(text, 16).ok() } else { None }
}

fn text_of(version: &[u8; 16]) -> String {
    let text = version.split(|&byte| byte == 0).next().unwrap_or_default();
    text.escape_ascii().to_string()
}

/// What a client measured of WRITEs, READs or atomics. A server has nothing to say here.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Bytes of a message.
    pub size: u64,
    pub iters: u64,
    /// MiB/s.
    pub peak: f64,
    /// MiB/s.
    pub average: f64,
    /// Million messages a second.
    pub messages: f64,
}

/// A connection with a program of perftest.
pub struct Exchange {
    stream: TcpStream,
    role: Role,
}

impl Exchange {
    pub fn new(stream: TcpStream, role: Role) -> Exchange {
        Exchange { stream, role }
    }

    /// Versions, the area of small messages, MTUs: gives the area's bytes and the MTU of the two.
    pub fn hello(&mut self, mtu: Mtu) -> Result<(u32, Mtu)> {
        let version = self.swap("version", VERSION)?;
        if version != VERSION {
            let (theirs, ours) = (text_of(&version), text_of(&VERSION));
            let why = format!("the peer is not perftest {ours}: its first word is \"{theirs}\"");
            return Err(why.into());
        }
        let cycle = u32::from_be_bytes(self.swap("cycle_buffer", CYCLE.to_be_bytes())?);
        if cycle > LARGEST_CYCLE {
            let why = format!("the peer asks for {cycle} bytes to write small messages to");
            return Err(why.into());
        }
        // Each end rounds up its own addresses only.
        self.swap("cache_line", CACHE_LINE.to_be_bytes())?;
        let theirs = self.swap("MTU", [digit(mtu), 0])?;
        let mut known = [256, 512, 1024, 2048, 4096].into_iter().filter_map(Mtu::from_bytes);
        let theirs = known.find(|&mtu| theirs == [digit(mtu), 0]).ok_or_else(|| {
            format!("the peer's MTU is \"{}\" and not 1 to 5", theirs.escape_ascii())
        })?;
        Ok((cycle.max(CYCLE), mtu.min(theirs)))
    }

    /// Tells the keys, and hears the peer's. perftest does this also to wait for the other end.
    pub fn keys(&mut self, mine: &Keys) -> Result<Keys> {
        Keys::from_wire(&self.swap("keys", mine.to_wire())?)
    }

    /// The same, with an end that is busy with traffic.
    pub fn keys_after_traffic(&mut self, mine: &Keys) -> Result<Keys> {
        Keys::from_wire(&self.swap_within(TRAFFIC, "keys after the traffic", mine.to_wire())?)
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

    /// The last word, which both ends say and perftest does not wait for. It may hang up before it
    /// is said.
    pub fn done(mut self) {
        let _ = self.send("last word", b"done\0");
    }

    /// Whether the peer has said something.
    pub fn has_word(&mut self) -> Result<bool> {
        self.stream.set_nonblocking(true)?;
        let found = self.stream.peek(&mut [0]);
        self.stream.set_nonblocking(false)?;
        match found {
            Ok(0) => Err(hung_up("keys after the traffic")),
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(format!("cannot read from the peer: {error}").into()),
        }
    }

    fn swap<const N: usize>(&mut self, what: &str, mine: [u8; N]) -> Result<[u8; N]> {
        self.swap_within(PATIENCE, what, mine)
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
        self.stream.set_write_timeout(Some(PATIENCE))?;
        let sent = self.stream.write_all(bytes);
        sent.map_err(|error| format!("cannot tell the peer our {what}: {error}").into())
    }

    /// As many bytes as there must be: a peer that says them one by one has no more time.
    fn recv<const N: usize>(&mut self, patience: Duration, what: &str) -> Result<[u8; N]> {
        let began = Instant::now();
        let (mut bytes, mut have) = ([0; N], 0);
        while have < N {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                let time = patience.as_secs();
                let why = format!("the peer said {have} of {N} bytes of its {what} in {time} s");
                return Err(why.into());
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut bytes[have..]) {
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
}

fn hung_up(what: &str) -> Box<dyn std::error::Error> {
    format!("the peer hung up before its {what}: see what it said").into()
}

/// The text of ibv_mtu: 256 bytes are '1', 4096 are '5'.
fn digit(mtu: Mtu) -> u8 {
    b'0' + (mtu.bytes().ilog2() - 7) as u8
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// As a server of `ib_send_lat` 6.06 said it.
    const SAID: &[u8; KEYS_LEN] = b"0000:0001:000011:914054:00000000:0000562ea793b000:\
        00:00:00:00:00:00:00:00:00:00:ff:ff:0a:4d:00:01:00000000:\0";

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(listener.local_addr().expect("bound")).expect("listens");
        (client, listener.accept().expect("connected").0)
    }

    #[test]
    fn keys_are_perftests() {
        let keys = Keys::from_wire(SAID).expect("as recorded");
        assert_eq!((keys.lid, keys.out_reads, keys.rkey), (0, 1, 0));
        assert_eq!((keys.qpn.get(), keys.psn.get()), (0x11, 0x91_4054));
        assert_eq!(keys.address, 0x562e_a793_b000);
        assert_eq!(keys.gid.0, [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 77, 0, 1]);
        assert_eq!(&keys.to_wire(), SAID);
    }

    #[test]
    fn keys_that_are_none_are_refused() {
        // Each byte in turn: colons, the NUL, and what is no digit.
        for at in 0..KEYS_LEN {
            let mut wire = *SAID;
            wire[at] = b'+';
            let in_srqn = (98..106).contains(&at);
            assert_eq!(Keys::from_wire(&wire).is_ok(), in_srqn, "byte {at}");
        }
        assert!(Keys::from_wire(&[0xff; KEYS_LEN]).is_err());
        assert!(Keys::from_wire(&[b':'; KEYS_LEN]).is_err());
        assert!(Keys::from_wire(&[0; KEYS_LEN]).is_err());
    }

    /// What a client of `ib_send_lat` 6.06 says before the first keys.
    const HELLO: &[u8; 26] = b"6.06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x10\0\0\0\0\x403\0";

    #[test]
    fn the_server_answers_each_word_with_as_many_bytes() {
        let (mut client, server) = pair();
        client.write_all(HELLO).expect("it listens");
        let mtu = Mtu::from_bytes(4096).expect("an MTU");
        let said = Exchange::new(server, Role::Server).hello(mtu).expect("a hello");
        assert_eq!((said.0, said.1.bytes()), (4096, 1024));
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).expect("all of it");
        assert_eq!(answer[..24], HELLO[..24]);
        assert_eq!(answer[24..], *b"5\0");
    }

    #[test]
    fn a_hello_that_is_none_is_an_error() {
        let cases: [(usize, &[u8], &str); 5] = [
            (0, b"5.99", "the peer is not perftest 6.06: its first word is \"5.99\""),
            (16, &[0xff; 4], "the peer asks for 4294967295 bytes to write small messages to"),
            (24, b"6", "the peer's MTU is \"6\\x00\" and not 1 to 5"),
            (24, b"0", "the peer's MTU is \"0\\x00\" and not 1 to 5"),
            (25, b"1", "the peer's MTU is \"31\" and not 1 to 5"),
        ];
        for (at, bytes, why) in cases {
            let mut hello = *HELLO;
            hello[at..at + bytes.len()].copy_from_slice(bytes);
            assert_eq!(refused(&hello), why);
        }
        let cut = refused(&HELLO[..20]);
        assert_eq!(cut, "the peer hung up before its cache_line: see what it said");
    }

    fn refused(hello: &[u8]) -> String {
        let (mut client, server) = pair();
        client.write_all(hello).expect("it listens");
        client.shutdown(std::net::Shutdown::Write).expect("connected");
        let mtu = Mtu::from_bytes(1024).expect("an MTU");
        let said = Exchange::new(server, Role::Server).hello(mtu);
        said.expect_err("no hello").to_string()
    }

    #[test]
    fn a_peer_that_dribbles_has_no_more_time_than_others() {
        let (mut client, server) = pair();
        client.write_all(b"6.06").expect("it listens");
        let mut exchange = Exchange::new(server, Role::Server);
        let said = exchange.recv::<16>(Duration::from_millis(20), "version");
        let why = said.expect_err("4 of 16 bytes").to_string();
        assert_eq!(why, "the peer said 4 of 16 bytes of its version in 0 s");
    }

    #[test]
    fn rates_arrive_as_they_were_told() {
        let (client, server) = pair();
        let told = Rates { size: 65536, iters: 10, peak: 1.5, average: 1.25, messages: 2e-5 };
        let mut server = Exchange::new(server, Role::Server);
        assert!(!server.has_word().expect("connected"));
        let there = thread::spawn(move || {
            let mut client = Exchange::new(client, Role::Client);
            client.rates(told).expect("a server answers")
        });
        assert_eq!(server.rates(Rates::default()).expect("a client tells"), told);
        assert_eq!(there.join().expect("no panic"), Rates::default());
        assert!(server.has_word().is_err(), "the client is gone");
    }
}
