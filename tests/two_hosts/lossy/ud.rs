//! UD: like UC, with one packet per message, and each message has its source.

use proverbs::completion::GRH_LEN;
use proverbs::prelude::*;

use super::{Arrived, MESSAGES, RECEIVES, judge};
use crate::Result;
use crate::content::{Content, MARKER};
use crate::station::{DEPTH, Idle, Station};
use crate::talk::Talk;

/// Not beyond any MTU.
const CONTENT: Content = Content { longest: 1000 };
const DEEP: Depth = Depth { send: 16, recv: RECEIVES as u32 };

pub fn send(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let (mut qp, to) = station.connect_ud(talk, None, DEPTH)?;
    for number in 0..MESSAGES {
        say(station, &mut qp, to, number)?;
    }
    // Until one arrives.
    let mut markers = 0;
    let arrived = loop {
        if let Some(arrived) = talk.overhear()? {
            break arrived;
        }
        say(station, &mut qp, to, MARKER)?;
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
fn say(
    station: &mut Station,
    qp: &mut QueuePair<Ud, Rts>,
    to: wr::Destination,
    number: u32,
) -> Result<()> {
    let mut buf = station.buf()?;
    buf.copy_from(&CONTENT.of(number))?;
    qp.post_send(wr::Send::new(buf).to(to))?;
    station.sent()
}

pub fn receive(station: &mut Station, talk: &mut Talk) -> Result<String> {
    let pool = station.pd.create_pool(RECEIVES, GRH_LEN + CONTENT.longest)?;
    let (qp, peer) = station.connect_ud(talk, Some(&pool), DEEP)?;
    let (mut arrived, mut idle, mut heard) = (Arrived::default(), Idle::new(), false);
    while !heard {
        let mut count = 0;
        for completion in station.cq.poll()? {
            let Outcome::Datagram(datagram) = completion.outcome() else {
                return Err("not a message".into());
            };
            if datagram.src_qp != peer.qpn {
                return Err(format!("a message of queue pair {}", datagram.src_qp).into());
            }
            let bytes = datagram.payload();
            heard |= arrived.take(CONTENT.check(bytes)?, bytes.len())?;
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
