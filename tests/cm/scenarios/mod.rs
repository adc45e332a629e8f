//! rdma_cm scenarios: each writes a transcript of its events and of rejected calls.
//!
//! The same scenario runs on the loopback and on a kernel's device, against the same expectation
//! (`expected`). A difference between devices is a line of the expectation with the device's tag,
//! and names the kernel's source. So the loopback never differs from a kernel without a reason.
//!
//! The loopback may be faster, since its retries do not wait for a clock. The order of an id's
//! events, their contents and the outcome match the kernel.

mod expected;
mod scenes;

use std::collections::{HashMap, VecDeque};
use std::fmt::Display;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use proverbs::cm::*;
use proverbs::{Error, Refused};

use crate::steps::done;
use crate::support::{
    address, end, event_channel, fabric, is_iwarp, is_siw, listener, long, routed,
};

/// The devices of one scenario, its ids by name, and the transcript.
struct Scene {
    channel: EventChannel,
    names: HashMap<IdKey, &'static str>,
    /// Events that the scenario has not used yet.
    kept: VecDeque<Event>,
    transcript: Vec<String>,
    /// Whether connection parameters, and the lengths of private data, are printed.
    in_full: bool,
}

impl Scene {
    fn new() -> Self {
        let (names, kept) = (HashMap::new(), VecDeque::new());
        let transcript = Vec::new();
        Scene { channel: event_channel(), names, kept, transcript, in_full: false }
    }

    fn say(&mut self, who: &str, what: impl Display) {
        self.transcript.push(format!("{who}: {what}"));
    }

    /// A new id called `who`.
    fn id<PS: PortSpace>(&mut self, who: &'static str) -> CmId<PS, Created, OnChannel> {
        let id = self.channel.create_id().unwrap();
        self.names.insert(id.key(), who);
        id
    }

    /// An id that listens at the device's address, on a free port.
    fn server<PS: PortSpace>(
        &mut self,
        backlog: u32,
    ) -> (CmId<PS, Listening, OnChannel>, SocketAddr) {
        let id = self.id("server").bind_addr(address(0)).unwrap().listen(backlog).unwrap();
        let at = id.local_addr().unwrap();
        (id, at)
    }

    /// An id that is ready to connect to `at`. Its events so far are not printed.
    fn client<PS: PortSpace>(
        &mut self,
        who: &'static str,
        at: SocketAddr,
    ) -> CmId<PS, RouteResolved, OnChannel> {
        let id = self.id::<PS>(who).resolve_addr(at, long()).unwrap();
        let event = self.take(who).unwrap();
        let id = done(id.advance(&event)).resolve_route(long()).unwrap();
        let event = self.take(who).unwrap();
        done(id.advance(&event))
    }

    /// Takes the next event of an id; `None` if there is none in time. On a loopback, events are
    /// there when the call that causes them has returned.
    fn take(&mut self, who: &str) -> Option<Event> {
        let wait = if fabric().is_some() { Duration::ZERO } else { long() };
        self.take_within(who, wait)
    }

    fn take_within(&mut self, who: &str, wait: Duration) -> Option<Event> {
        loop {
            let is_its = |event: &Event| self.names.get(&event.id()) == Some(&who);
            if let Some(at) = self.kept.iter().position(is_its) {
                return self.kept.remove(at);
            }
            let event = self.channel.wait_timeout(wait).unwrap()?;
            self.kept.push_back(event);
        }
    }

    /// An event: its name, its status, the connection parameters, and the private data without
    /// trailing zeroes.
    fn described(&self, event: &Event) -> String {
        let name = event.kind().name().trim_start_matches("RDMA_CM_EVENT_");
        let mut text = match event.status() {
            0 => name.to_owned(),
            negative @ ..0 => format!("{name} {}", named(-negative)),
            reason => format!("{name} {reason}"),
        };
        let has_param = matches!(
            event.kind(),
            EventKind::ConnectRequest | EventKind::ConnectResponse | EventKind::Established
        );
        if let Some(param) = event.peer_param().filter(|_| has_param && self.in_full) {
            let PeerParam { initiator_depth, responder_resources, .. } = param;
            text += &format!(" {initiator_depth}/{responder_resources}");
            text += &format!(" {}/{}", param.retry_count, param.rnr_retry_count);
        }
        let data = event.private_data();
        let end = data.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        if end > 0 {
            let shown = String::from_utf8_lossy(&data[..end.min(8)]);
            text += &format!(" {shown:?}");
        }
        if self.in_full {
            text += &format!(" {end} of {}", data.len());
        }
        text
    }

    /// Takes the next event of an id, and prints it.
    fn event(&mut self, who: &'static str) -> Event {
        let Some(event) = self.take(who) else {
            panic!("no event of the {who} after\n{}", self.transcript.join("\n"))
        };
        let text = self.described(&event);
        self.say(who, text);
        event
    }

    /// Like [`event`](Self::event), for an event that no step waits for.
    fn sees(&mut self, who: &'static str) {
        drop(self.event(who));
    }

    /// Prints whether an event of an id is there. The messages that could cause one have been
    /// processed ([`settle`](Self::settle)).
    fn looks(&mut self, who: &'static str) {
        match self.take_within(who, Duration::ZERO) {
            Some(event) => {
                let text = self.described(&event);
                self.say(who, text)
            }
            None => self.say(who, "no event"),
        }
    }

    /// Takes the next event of a listening id, which is a request, and calls its id `who`.
    fn request<PS: PortSpace>(
        &mut self,
        listening: &CmId<PS, Listening, OnChannel>,
        who: &'static str,
    ) -> Request<PS, OnChannel> {
        let event = self.event("server");
        let request = listening.request(event).unwrap();
        self.names.insert(request.id.key(), who);
        request
    }

    /// The request of the client that found the backlog full. On Linux it arrives after seconds.
    /// (On iWARP it was refused.)
    fn event_of_the_second(&mut self, listening: &CmId<Tcp, Listening, OnChannel>) {
        if is_iwarp() {
            return;
        }
        let request = self.request(listening, "passive");
        request.reject(&RejectData::none()).unwrap();
        self.sees("second");
    }

    /// Waits until the kernel has processed all earlier messages: a request that is sent after them
    /// arrives, and is rejected. (It handles messages in order.)
    fn settle(&mut self) {
        if fabric().is_some() {
            return;
        }
        // Ids with their own channels, so that requests to the scenario's ids stay pending.
        let (listening, at) = listener::<Tcp>();
        let server = thread::spawn(move || {
            listening.get_request_timeout(long()).unwrap().reject(&RejectData::none()).unwrap();
        });
        let id = routed::<Tcp>(at);
        let (qp, _end) = end(&id, 0);
        id.connect(qp, &ConnParam::default(), long()).unwrap_err();
        server.join().unwrap();
    }

    /// Prints that a call succeeded, or its error.
    fn called<T, F>(&mut self, who: &str, call: &str, result: Result<T, Refused<F>>) -> Option<T> {
        match result {
            Ok(done) => {
                self.say(who, format!("{call}: done"));
                Some(done)
            }
            Err(refused) => {
                self.say(who, format!("{call}: {}", errno(&refused.error)));
                None
            }
        }
    }

    /// Events that were not taken are part of the transcript.
    fn end(mut self) -> Vec<String> {
        // A kernel uses worker threads. A late event is missed here, which does no harm.
        let wait = Duration::from_millis(if fabric().is_some() { 0 } else { 300 });
        while let Some(event) = self.channel.wait_timeout(wait).unwrap() {
            self.kept.push_back(event);
        }
        for event in std::mem::take(&mut self.kept) {
            let Some(&who) = self.names.get(&event.id()) else { continue };
            let left = format!("left {}", self.described(&event));
            self.say(who, left);
        }
        self.transcript
    }
}

fn errno(error: &Error) -> String {
    error.errno().map_or_else(|| error.to_string(), named)
}

fn named(errno: i32) -> String {
    let known = [
        (libc::EINVAL, "EINVAL"),
        (libc::ENODEV, "ENODEV"),
        (libc::ENETUNREACH, "ENETUNREACH"),
        (libc::EADDRINUSE, "EADDRINUSE"),
        (libc::EADDRNOTAVAIL, "EADDRNOTAVAIL"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::ECONNREFUSED, "ECONNREFUSED"),
        (libc::ECONNRESET, "ECONNRESET"),
    ];
    let name = known.iter().find(|(known, _)| *known == errno);
    name.map_or_else(|| errno.to_string(), |(_, name)| (*name).to_owned())
}

/// Runs a scenario and compares its transcript with the lines of `expected` for this device.
fn check(run: fn(&mut Scene), expected: &str) {
    let mut scene = Scene::new();
    run(&mut scene);
    let seen = scene.end().join("\n");
    let device = if is_siw() {
        "siw"
    } else if is_iwarp() {
        "loopback iWARP"
    } else {
        "InfiniBand's CM"
    };
    assert_eq!(seen, lines(expected, is_iwarp()).join("\n"), "left: this device, {device}");
}

/// The lines of an expectation for one kind of device: those without a tag, and those with its own
/// (`ib` or `iw`). The source in a tagged line is left out.
fn lines(expected: &str, is_iwarp: bool) -> Vec<&str> {
    let (own, other) = if is_iwarp { ("iw| ", "ib| ") } else { ("ib| ", "iw| ") };
    let lines = expected.lines().map(str::trim).filter(|line| !line.is_empty());
    let own = lines.filter(|line| !line.starts_with(other)).map(|line| {
        let line = line.strip_prefix(own).unwrap_or(line);
        line.split_once(" # ").map_or(line, |(line, _)| line.trim_end())
    });
    own.collect()
}
