//! UC: a message that does not arrive is lost, and one that arrives is whole.

use proverbs::prelude::*;

use super::{Arrived, MESSAGES, RECEIVES, judge};
use crate::Result;
use crate::content::{Content, MARKER};
use crate::station::{DEPTH, Idle, Station};
use crate::talk::Talk;

/// One packet, or several.
const CONTENT: Content = Content { longest: 2500 };
const DEEP: Depth = Depth { send: 16, recv: RECEIVES as u32 };

pub fn send(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let mut qp = station.connect_uc(talk, None, DEPTH)?;
    for number in 0..MESSAGES {
        say(station, &mut qp, number)?;
    }
    // Until one arrives.
    let mut markers = 0;
    let arrived = loop {
        if let Some(arrived) = talk.overhear()? {
            break arrived;
        }
        say(station, &mut qp, MARKER)?;
        markers += 1;
        std::thread::sleep(std::time::Duration::from_millis(10));
        if markers > super::MARKERS {
            break talk.hear()?;
        }
    };
    judge(arrived)?;
    qp.to_error()?.destroy()?;
    station.all_home()?;
    Ok(format!("{MESSAGES} sends succeeded, {arrived} arrived"))
}

/// Sends one message at a time; its completion always means that it is on the wire (R10.10).
fn say(station: &mut Station, qp: &mut QueuePair<Uc, Rts>, number: u32) -> Result<()> {
    let mut buf = station.buf()?;
    buf.copy_from(&CONTENT.of(number))?;
    qp.post_send(wr::Send::new(buf))?;
    station.sent()
}

pub fn receive(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let pool = station.pd.create_pool(RECEIVES, CONTENT.longest)?;
    let qp = station.connect_uc(talk, Some(&pool), DEEP)?;
    let (mut arrived, mut idle, mut heard) = (Arrived::default(), Idle::new(), false);
    while !heard {
        let mut count = 0;
        for completion in station.cq.poll()? {
            let Outcome::Received(received) = completion.outcome() else {
                return Err("not a message".into());
            };
            let buf = received.entry.ok_or("a receive without its buffer")?;
            heard |= arrived.take(CONTENT.check(&buf)?, buf.len())?;
            count += 1;
        }
        idle.saw(count, "the marker")?;
    }
    talk.say(arrived.numbers.len() as u64)?;
    let mut qp = qp.to_error()?;
    qp.drain(&mut station.cq, |_| {})?;
    match pool.available() {
        RECEIVES => Ok(arrived.figures()),
        home => Err(format!("{home} of {RECEIVES} buffers are free").into()),
    }
}
