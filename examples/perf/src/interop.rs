//! Measures with a program of perftest at the other end.

use proverbs::prelude::*;

use crate::connect::{Connect, Endpoint};
use crate::end::End;
use crate::exchange::Exchange;
use crate::meet::Meeting;
use crate::options::{Connection, Options, Verb, name};
use crate::perftest::{Keys, Rates};
use crate::report::{Report, Row};
use crate::run::Station;
use crate::work::Work;
use crate::{Result, Role, bandwidth};

/// Measures one size, in the steps of perftest. The measuring end returns a report: the client, and
/// both ends for ping-pongs.
pub fn measure<T: Connect, W: Work<T>>(
    mut station: Station<'_>,
    mut peer: Exchange,
    meeting: Option<&Meeting>,
    work: impl FnOnce(RemoteSlice<RemoteAll>, Option<wr::Destination>) -> Result<W>,
) -> Result<Option<Report>> {
    let size = *station.sizes.last().ok_or("nothing to measure")?;
    let (cycle, mtu) = peer.hello(station.mtu)?;
    station.mtu = mtu;
    let (open, length) = (cycle as usize, size.max(8) as u64);
    let (mut end, mine, theirs, to, kept);
    match meeting {
        None => {
            let ready = station.prepare::<T, W::Issues>(open)?;
            mine = keys(&ready.mine);
            theirs = endpoint(peer.keys(&mine)?, length)?;
            (end, to) = station.connect(ready, &theirs)?;
            kept = None;
        }
        Some(meeting) => {
            peer.sign("sign before it listens again")?;
            let mut met = station.meet::<T, W::Issues>(meeting, open)?;
            let Options { connection, lat, .. } = *station.options;
            // A client that expects replies announces its queue pair with a datagram.
            if connection == Connection::Ud && lat && station.role == Role::Server {
                while met.end.received == 0 {
                    met.end.poll()?;
                }
            }
            peer.sign("sign after it met")?;
            mine = keys(&met.mine);
            theirs = endpoint(peer.keys(&mine)?, length)?;
            to = station.destination(&mut met, &theirs)?;
            (end, kept) = (met.end, Some(met.kept));
        }
    }
    let work = work(theirs.open, to)?;
    let Options { lat, verb, .. } = *station.options;
    // The server only waits.
    let passive = !lat && verb != Verb::Send;
    // Both are connected; both are ready. perftest's receiving ends post their receives before one
    // more step; here they are posted from the beginning.
    for _ in 0..if passive { 2 } else { 3 } {
        peer.keys(&mine)?;
    }

    let row = match lat {
        true => {
            // The server starts ping-pongs of WRITEs.
            let first = if verb == Verb::Write { Role::Server } else { Role::Client };
            station.latency(&mut end, &work, size, station.role == first)?
        }
        false => stream(&station, &mut peer, &mut end, &work, size)?,
    };
    // Ping-pongs of WRITEs end without a message.
    let is_silent = lat && verb == Verb::Write;
    if !is_silent {
        peer.keys_after_traffic(&mine)?;
        if passive {
            let theirs = peer.rates(row.as_ref().map(Row::rates).unwrap_or_default())?;
            if station.role == Role::Server {
                hear(&station, size, theirs)?;
            }
            peer.keys(&mine)?;
        }
    }
    // Dropped before the objects that connected it.
    drop(end);
    if let Some(kept) = kept {
        kept.close()?;
    }
    peer.done(!is_silent)?;
    Ok(row.map(|row| station.report(vec![row])))
}

/// Bandwidth: the client's results.
fn stream<T: Connect, W: Work<T>>(
    station: &Station<'_>,
    peer: &mut Exchange,
    end: &mut End<T, W::Issues>,
    work: &W,
    size: usize,
) -> Result<Option<Row>> {
    let options = station.options;
    let iters = u64::from(options.iters);
    match station.role {
        Role::Client => {
            let time = station.bandwidth(end, work, size)?;
            // perftest's server does not report the number of received messages.
            Ok(Some(Row::bandwidth(size, options.iters, None, time)))
        }
        Role::Server if options.verb == Verb::Send => {
            let arrived = bandwidth::receive(end, iters, || peer.has_word())?;
            options.say(&format!("{arrived} of {iters} messages of {size} bytes arrived"));
            Ok(None)
        }
        // The device does all the work.
        Role::Server => Ok(None),
    }
}

/// Prints the client's results, if it ran the measurement that this end expects.
fn hear(station: &Station<'_>, size: usize, theirs: Rates) -> Result<()> {
    let Rates { size: their_size, iters: their_iters, average, messages, .. } = theirs;
    let iters = station.options.iters;
    if (their_size, their_iters) != (size as u64, iters.into()) {
        let why = format!(
            "the two ends have different options: {iters} messages of {size} bytes here, \
             {their_iters} of {their_size} bytes there"
        );
        return Err(why.into());
    }
    let verb = name(station.options.verb);
    station.options.say(&format!(
        "the client measured {iters} {verb} of {size} bytes: {average:.2} MiB/s, {messages:.6} Mpps"
    ));
    Ok(())
}

/// The data that perftest needs about this end.
fn keys(mine: &Endpoint) -> Keys {
    let Endpoint { lid, gid, qpn, psn, rd_atomic, open } = *mine;
    let bytes = open.to_bytes();
    let [a, b, c, d, e, f, g, h, ..] = bytes;
    let [.., k0, k1, k2, k3, _, _, _, _] = bytes;
    Keys {
        lid,
        out_reads: rd_atomic.into(),
        qpn,
        psn,
        rkey: u32::from_be_bytes([k0, k1, k2, k3]),
        address: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
        gid,
    }
}

/// The peer's endpoint, with `len` bytes that this end may access.
fn endpoint(keys: Keys, len: u64) -> Result<Endpoint> {
    let Keys { lid, out_reads, qpn, psn, rkey, address, gid } = keys;
    if address.checked_add(len).is_none() {
        return Err(format!("the peer does not have {len} bytes at {address:#x}").into());
    }
    let open = RemoteSlice::from_parts(address, len, rkey);
    Ok(Endpoint { lid, gid, qpn, psn, rd_atomic: out_reads.min(255) as u8, open })
}
