//! A peer disappears in mid-transfer: a typed error in bounded time, and every buffer back.

use std::process::Command;
use std::time::{Duration, Instant};

use proverbs::prelude::*;

use crate::Result;
use crate::station::{Idle, Station};
use crate::talk::Talk;

/// Messages before the peer disappears.
const ENOUGH: usize = 20;
const RECVS: usize = 32;
/// Seven tries of 67 ms (`RcConnector`'s defaults) are half a second; emulated guests are slow.
const BOUND: Duration = Duration::from_secs(30);
/// If a device is removed while a process has it open, Soft-RoCE keeps it half alive: its peer
/// still gets packets now and then, and takes between 5 and 50 s to give up.
const REMOVED: Duration = Duration::from_secs(100);

/// Keeps the send queue full until the peer is gone, and checks that every buffer returns.
pub fn notice(station: &mut Station, talk: &mut Talk) -> Result<String> {
    notice_within(BOUND, station, talk)
}

/// Like `notice`, for a peer whose device is removed.
pub fn notice_removal(station: &mut Station, talk: &mut Talk) -> Result<String> {
    notice_within(REMOVED, station, talk)
}

fn notice_within(bound: Duration, station: &mut Station, talk: &mut Talk) -> Result<String> {
    let (qp, _) = station.connect_rc(talk, RECVS, None)?;
    let (status, time) = send_until_error(station, qp, bound)?;
    Ok(format!("{status} after {} ms, every buffer back", time.as_millis()))
}

/// Like `notice`; then the peer comes back, and connects again.
pub fn notice_and_return(station: &mut Station, mut talk: Talk, peer: &str) -> Result<String> {
    let said = notice(station, &mut talk)?;
    again(station, talk, 1, peer)?;
    Ok(format!("{said}; then connected again"))
}

/// Receives some messages, and is killed.
pub fn be_killed(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let (mut qp, _) = station.connect_rc(talk, RECVS, None)?;
    receive(station, &mut qp, ENOUGH)?;
    run("sh", &["-c", &format!("kill -9 {}", std::process::id())])?;
    Err("still alive".into())
}

/// Receives some messages, loses its link, and detects that by its own sends; then the link is up
/// again.
pub fn lose_the_link(
    station: &mut Station,
    mut talk: Talk,
    netdev: &str,
    peer: &str,
) -> Result<String> {
    let (mut qp, _) = station.connect_rc(&mut talk, RECVS, None)?;
    receive(station, &mut qp, ENOUGH)?;
    run("ip", &["link", "set", netdev, "down"])?;
    let result = send_until_error(station, qp, BOUND);
    run("ip", &["link", "set", netdev, "up"])?;
    let (status, time) = result?;
    again(station, talk, 2, peer)?;
    Ok(format!("{status} after {} ms, every buffer back; then connected again", time.as_millis()))
}

/// Receives some messages, and loses its device while the context is open.
pub fn lose_the_device(station: &mut Station, talk: &mut Talk, device: &str) -> Result<String> {
    let (mut qp, _) = station.connect_rc(talk, RECVS, None)?;
    receive(station, &mut qp, ENOUGH)?;
    let mut removal = Command::new("rdma").args(["link", "delete", device]).spawn()?;
    let (status, time) = send_until_error(station, qp, REMOVED)?;
    let _ = removal.try_wait()?;
    Ok(format!("{status} after {} ms, every buffer back", time.as_millis()))
}

/// A second connection, with messages in both directions, after the first one's failure.
fn again(station: &mut Station, first: Talk, host: u8, peer: &str) -> Result<()> {
    let port = first.0.local_addr()?.port().min(first.0.peer_addr()?.port());
    drop(first);
    let mut talk = Talk::new(host, peer, port + 1)?;
    let (mut qp, _) = station.connect_rc(&mut talk, RECVS, None)?;
    let mut buf = station.buf()?;
    buf.copy_from(b"again")?;
    qp.post_send(wr::Send::new(buf))?;
    receive(station, &mut qp, 1)?;
    talk.say(0)?;
    talk.hear()?;
    let mut qp = qp.to_error()?;
    qp.drain(&mut station.cq, |_| {})?;
    qp.destroy()?;
    station.all_home()
}

/// Receives messages and posts their buffers again.
fn receive(station: &mut Station, qp: &mut QueuePair<Rc, Rts>, count: usize) -> Result<()> {
    let (mut received, mut idle) = (0, Idle::new());
    while received < count {
        let mut seen = 0;
        for completion in station.cq.poll()? {
            seen += 1;
            match completion.outcome() {
                Outcome::Received(message) => {
                    received += 1;
                    let buf = message.entry.ok_or("a receive without its buffer")?;
                    qp.post_recv(wr::Recv::new(buf))?;
                }
                Outcome::Sent(_) => {}
                Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
                _ => return Err("a completion of another kind".into()),
            }
        }
        idle.saw(seen, "a message")?;
    }
    Ok(())
}

/// Sends until a completion fails. Returns its status and the time since the last success;
/// everything else must be flushed, and every buffer be back.
fn send_until_error(
    station: &mut Station,
    mut qp: QueuePair<Rc, Rts>,
    bound: Duration,
) -> Result<(WcStatus, Duration)> {
    let (mut last, mut idle) = (Instant::now(), Idle::new());
    let status = 'sending: loop {
        while qp.send_room() > 0 {
            let mut buf = station.buf()?;
            buf.copy_from(b"is anybody there?")?;
            qp.post_send(wr::Send::new(buf))?;
        }
        let mut seen = 0;
        for completion in station.cq.poll()? {
            seen += 1;
            match completion.outcome() {
                Outcome::Failed(failed) if !failed.error.status.is_flush() => {
                    break 'sending failed.error.status;
                }
                Outcome::Failed(failed) => {
                    return Err(format!("flushed, but no request failed: {}", failed.error).into());
                }
                _ => last = Instant::now(),
            }
        }
        idle.saw(seen, "an error")?;
    };
    let time = last.elapsed();
    if time > bound {
        return Err(format!("{status} only after {} s", time.as_secs()).into());
    }
    let mut qp = qp.to_error()?;
    qp.drain(&mut station.cq, |_| {})?;
    qp.destroy()?;
    station.all_home()?;
    Ok((status, time))
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let status = Command::new(program).args(arguments).status()?;
    match status.success() {
        true => Ok(()),
        false => Err(format!("{program} {}: {status}", arguments.join(" ")).into()),
    }
}
