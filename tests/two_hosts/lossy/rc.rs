//! RC: everything arrives, in order, however lossy the fabric.

use std::sync::atomic::Ordering::SeqCst;

use proverbs::completion::{Sent, WcOpcode};
use proverbs::prelude::*;

use super::MESSAGES;
use crate::Result;
use crate::content::Content;
use crate::station::{Idle, LONGEST, Station};
use crate::talk::Talk;

const RECVS: usize = 32;
const ROUNDS: u32 = 40;
/// The offset of the counter of the atomics, and where the writes begin.
const DATA: u64 = 8;
const REGION: usize = DATA as usize + LONGEST;
const CONTENT: Content = Content { longest: LONGEST };
/// Counters of Soft-RoCE that only loss or reordering increments.
const SIGNS_OF_LOSS: [&str; 3] = ["completer_retry_err", "duplicate_request", "out_of_seq_request"];

pub fn send(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let before = signs(station);
    let (mut qp, peer) = station.connect_rc(talk, 0, None)?;
    let bytes = stream(station, &mut qp)?;
    let region = peer.region::<RemoteAll>(0)?;
    for number in 0..ROUNDS {
        one_sided(station, &mut qp, region, number)?;
    }
    talk.say(bytes)?;
    let (arrived, signs_there) = (talk.hear()?, talk.hear()?);
    if arrived != bytes {
        return Err(format!("{bytes} bytes were sent, {arrived} arrived").into());
    }
    let signs = signs(station) - before + signs_there;
    if signs == 0 {
        return Err("the devices saw no retry: is the fabric lossy?".into());
    }
    come_home(station, qp)?;
    Ok(format!(
        "{MESSAGES} messages ({bytes} bytes), {ROUNDS} writes, reads and atomics, 0 bytes lost, \
         {signs} retries and duplicates"
    ))
}

pub fn receive(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let before = signs(station);
    let region = station.pd.register::<RemoteAll>(REGION)?;
    let (mut qp, _) = station.connect_rc(talk, RECVS, Some(region.remote()))?;
    let (mut next, mut bytes) = (0, 0);
    let mut idle = Idle::new();
    while next < MESSAGES {
        let mut count = 0;
        for completion in station.cq.poll()? {
            let Outcome::Received(received) = completion.outcome() else {
                return Err("not a message".into());
            };
            let buf = received.entry.ok_or("a receive without its buffer")?;
            if CONTENT.check(&buf)? != next {
                return Err(format!("message {next} is not the next").into());
            }
            bytes += buf.len() as u64;
            next += 1;
            count += 1;
            qp.post_recv(wr::Recv::new(buf))?;
        }
        idle.saw(count, "the next message")?;
    }
    // The peer is done with the region too.
    talk.hear()?;
    let counted = region.cell(0)?.load(SeqCst);
    if counted != ROUNDS.into() {
        return Err(format!("{ROUNDS} increments were made, {counted} were counted").into());
    }
    talk.say(bytes)?;
    talk.say(signs(station) - before)?;
    come_home(station, qp)?;
    Ok(format!("{next} messages in order, {bytes} bytes, the atomics counted {counted}"))
}

/// Sends all messages, as many at once as there is room for. Returns their bytes.
fn stream(station: &mut Station, qp: &mut QueuePair<Rc, Rts>) -> Result<u64> {
    let (mut sent, mut done, mut bytes) = (0, 0, 0);
    let mut idle = Idle::new();
    while done < MESSAGES {
        while sent < MESSAGES && qp.send_room() > 0 {
            let mut buf = station.buf()?;
            buf.copy_from(&CONTENT.of(sent))?;
            bytes += buf.len() as u64;
            qp.post_send(wr::Send::new(buf))?;
            sent += 1;
        }
        let count = finish(&mut station.cq, |_| Ok(()))?;
        done += count as u32;
        idle.saw(count, "the next acknowledgement")?;
    }
    Ok(bytes)
}

/// Writes a message, reads it back, and counts.
fn one_sided(
    station: &mut Station,
    qp: &mut QueuePair<Rc, Rts>,
    region: RemoteSlice<RemoteAll>,
    number: u32,
) -> Result<()> {
    let content = CONTENT.of(number);
    let (mut out, back, old) = (station.buf()?, station.buf()?, station.buf()?);
    out.copy_from(&content)?;
    let there = region.slice(DATA, content.len() as u64)?;
    post_send!(
        qp,
        [
            wr::RdmaWrite::new(out, there.write()),
            wr::RdmaRead::new(back, there.read()),
            wr::FetchAndAdd::new(old, region.atomic(0)?, 1),
        ]
    )?;
    let (mut left, mut idle) = (3, Idle::new());
    while left > 0 {
        let count = finish(&mut station.cq, |sent| match (sent.opcode, sent.entry) {
            (WcOpcode::RdmaRead, Some(buf)) => CONTENT.check(&buf).map(drop),
            (WcOpcode::FetchAdd, Some(mut buf)) => {
                buf.set_len(8);
                match buf[..] == u64::from(number).to_ne_bytes() {
                    true => Ok(()),
                    false => Err(format!("the counter was not {number}").into()),
                }
            }
            _ => Ok(()),
        })?;
        left -= count.min(left);
        idle.saw(count, "a write, a read and an atomic")?;
    }
    Ok(())
}

/// Polls once; every completion must be a successful send. Returns their number.
fn finish(
    cq: &mut CompletionQueue,
    mut look: impl FnMut(Sent<Buf>) -> Result<()>,
) -> Result<usize> {
    let mut count = 0;
    for completion in cq.poll()? {
        match completion.outcome() {
            Outcome::Sent(sent) => look(sent)?,
            Outcome::Failed(failed) => return Err(failed.error.to_string().into()),
            _ => return Err("not a send".into()),
        }
        count += 1;
    }
    Ok(count)
}

fn come_home(station: &mut Station, qp: QueuePair<Rc, Rts>) -> Result<()> {
    let mut qp = qp.to_error()?;
    qp.drain(&mut station.cq, |_| {})?;
    qp.destroy()?;
    station.all_home()
}

fn signs(station: &Station) -> u64 {
    let counters = station.counters();
    SIGNS_OF_LOSS.iter().filter_map(|name| counters.get(*name)).sum()
}
