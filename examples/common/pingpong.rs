//! The game: a message each way, again and again.

use std::time::Instant;

use proverbs::completion::{Direction, GRH_LEN, Received};
use proverbs::{Buf, Outcome, PostError};

use super::completions::Polling;
use super::content::Content;
use super::exchange::Role;
use super::stall::Progress;
use super::{Result, Station};

/// The verbs of a ping-pong. A stream is a pair of queue pairs.
pub trait Queues {
    /// Which stream a queue pair belongs to.
    fn stream(&self, qp_num: u32) -> Option<usize>;

    /// Posts a receive.
    fn post_recv(&mut self, buf: Buf) -> std::result::Result<(), PostError<Buf>>;

    /// Sends a message. Gives the buffer back if its bytes went inline, so that the device has no
    /// part in it.
    fn post_send(
        &mut self,
        stream: usize,
        message: Buf,
    ) -> std::result::Result<Option<Buf>, PostError<Buf>>;
}

/// A side sends its next message when its last one is out and the answer is in.
#[derive(Default)]
struct Stream {
    out: bool,
    answer: Option<Buf>,
    sent: u32,
    received: u32,
}

/// A ping-pong under way.
pub struct Game<'a, Q> {
    station: &'a Station,
    queues: &'a mut Q,
    /// Buffers that are neither posted nor an answer.
    spare: Vec<Buf>,
    content: Content,
    streams: Vec<Stream>,
    size: usize,
    iters: u32,
    /// Completions of sends and of receives.
    scnt: u32,
    rcnt: u32,
    began: Instant,
}

/// Plays until `iters` messages went each way, and reports. See [`Game::begin`].
#[allow(dead_code)] // some play it themselves
pub fn play(
    station: &Station,
    polling: &mut Polling,
    queues: &mut impl Queues,
    spare: Vec<Buf>,
    size: usize,
    first: u8,
) -> Result<()> {
    let mut game = Game::begin(station, queues, spare, size, first)?;
    let progress = Progress::watch(station.program, "a packet is lost, or the peer is gone".into());
    while !game.is_over() {
        for completion in polling.next()? {
            progress.made();
            game.completed(completion.outcome())?;
            // What comes after the last exchange is no matter: the peer may be gone.
            if game.is_over() {
                break;
            }
        }
    }
    game.report();
    Ok(())
}

impl<'a, Q: Queues> Game<'a, Q> {
    /// `spare` are as many buffers as there are streams; `first` is the byte that the C namesake's
    /// first message is made of. The client sends it.
    pub fn begin(
        station: &'a Station,
        queues: &'a mut Q,
        spare: Vec<Buf>,
        size: usize,
        first: u8,
    ) -> Result<Self> {
        let options = &station.options;
        let count = spare.len();
        let streams = (0..count).map(|_| Stream { out: true, ..Stream::default() }).collect();
        let content = Content::new(options.check, station.role, first, count);
        let (iters, began) = (options.iters, Instant::now());
        let (scnt, rcnt) = (0, 0);
        let mut game =
            Game { station, queues, spare, content, streams, size, iters, scnt, rcnt, began };
        if station.role == Role::Client {
            game.open()?;
        }
        Ok(game)
    }

    pub fn is_over(&self) -> bool {
        self.rcnt >= self.iters && self.scnt >= self.iters
    }

    /// The client's first messages.
    fn open(&mut self) -> Result<()> {
        for stream in 0..self.streams.len() {
            if let Some(mut message) = self.spare.pop() {
                message.set_len(self.size);
                self.send(stream, message)?;
            }
        }
        Ok(())
    }

    /// Goes on by what a completion tells.
    pub fn completed(&mut self, outcome: Outcome<'_, Buf>) -> Result<()> {
        match outcome {
            Outcome::Sent(sent) => {
                self.scnt += 1;
                let stream = self.stream(sent.qp_num)?;
                self.streams[stream].out = true;
                if let Some(buf) = sent.entry {
                    self.spare.push(self.content.blank(buf));
                }
                self.answer(stream)
            }
            Outcome::Received(Received { entry, qp_num, .. }) => self.received(qp_num, entry, 0),
            Outcome::Datagram(datagram) => self.received(datagram.qp_num, datagram.entry, GRH_LEN),
            Outcome::Failed(failed) => {
                let what = match failed.direction {
                    Direction::Send => "a send failed",
                    Direction::Receive => "a receive failed",
                };
                Err(format!("{what} after {} exchanges: {}", self.rcnt, failed.error).into())
            }
            // Not with profiles that signal all.
            Outcome::Selective(_) => Ok(()),
        }
    }

    /// A message has arrived, behind `skip` bytes of header.
    fn received(&mut self, qp_num: u32, entry: Option<Buf>, skip: usize) -> Result<()> {
        let stream = self.stream(qp_num)?;
        let mut message = entry.ok_or("a receive came back without its buffer")?;
        let len = message.len().saturating_sub(skip);
        if len != self.size {
            let size = self.size;
            let why = format!("a message of {len} bytes arrived, not of {size}: use the same -s");
            return Err(why.into());
        }
        message.copy_within(skip.., 0);
        message.set_len(len);
        let n = self.streams[stream].received;
        self.content.check(stream, n, &message)?;
        self.streams[stream].received += 1;
        self.streams[stream].answer = Some(message);
        self.rcnt += 1;
        self.answer(stream)
    }

    /// Sends what has arrived back, or the next pattern in the same buffer, if it is time to.
    fn answer(&mut self, stream: usize) -> Result<()> {
        let at = &mut self.streams[stream];
        if self.scnt >= self.iters || !at.out {
            return Ok(());
        }
        let Some(message) = at.answer.take() else { return Ok(()) };
        // First, so that there is a receive for the answer to the answer.
        if let Some(buf) = self.spare.pop() {
            self.queues.post_recv(buf)?;
        }
        self.send(stream, message)
    }

    fn send(&mut self, stream: usize, mut message: Buf) -> Result<()> {
        let at = &mut self.streams[stream];
        self.content.write(stream, at.sent, &mut message);
        at.out = false;
        at.sent += 1;
        if let Some(buf) = self.queues.post_send(stream, message)? {
            self.spare.push(self.content.blank(buf));
        }
        Ok(())
    }

    fn stream(&self, qp_num: u32) -> Result<usize> {
        let stream = self.queues.stream(qp_num);
        stream.ok_or_else(|| format!("a completion of unknown QP {qp_num:#08x}").into())
    }

    pub fn report(&self) {
        let (station, iters) = (self.station, self.iters);
        let seconds = self.began.elapsed().as_secs_f64();
        let bytes = self.size as u64 * u64::from(iters) * 2;
        let mbit = bytes as f64 * 8e-6 / seconds;
        let usec = seconds * 1e6 / f64::from(iters);
        station.say(&format!("{bytes} bytes in {seconds:.2} seconds = {mbit:.2} Mbit/sec"));
        station.say(&format!("{iters} iters in {seconds:.2} seconds = {usec:.2} usec/iter"));
        if station.options.check {
            station.say(&format!("every byte of {} messages checked", self.rcnt));
        }
    }
}
