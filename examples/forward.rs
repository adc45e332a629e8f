//! Forwards a message without its header: the device wrote the message into a buffer, and reads its
//! payload from the same buffer. No byte is copied, and the buffer can receive the next message
//! afterwards. A client, a proxy, and the server that the proxy sends to are all in this process,
//! on the loopback device. The buffers come from an arena, with the length that each end needs.

#![forbid(unsafe_code)]

use std::error::Error;

use proverbs::loopback::{self, Pair};
use proverbs::prelude::*;

/// The size of the header, which names the receiver of the payload.
const HEADER: usize = 8;

fn main() -> Result<(), Box<dyn Error>> {
    // Two connections on one device: from the client to the proxy, and from the proxy to the
    // server.
    let Pair { a: mut client, b: mut from_client, cq: mut front_cq, pd, context, .. } =
        loopback::pair()?;
    let (mut to_server, mut server, mut back_cq) = connected(&context, &pd)?;

    let arena = pd.create_arena(1 << 20, 16)?;
    let buffer = |len| arena.take(len).ok_or("no room in the arena");
    let mut at_proxy = buffer(64 << 10)?;
    for (number, payload) in [&b"short"[..], &[7; 5000], b"", b"the last"].into_iter().enumerate() {
        server.post_recv(wr::Recv::new(buffer(8 << 10)?))?;
        from_client.post_recv(wr::Recv::new(at_proxy))?;

        let mut message = buffer(HEADER + payload.len())?;
        message[..HEADER].copy_from_slice(&(number as u64).to_be_bytes());
        message[HEADER..].copy_from_slice(payload);
        client.post_send(wr::Send::new(message))?;

        // The proxy reads the header, and sends the bytes after it.
        let mut got = received(&mut front_cq)?;
        let header = u64::from_be_bytes(got[..HEADER].try_into()?);
        got.narrow(HEADER..)?;
        to_server.post_send(wr::Send::new(got))?;

        let (arrived, mut sent) = both(&mut back_cq)?;
        println!("{header}: {} bytes after a header of {HEADER}", arrived.len());
        assert_eq!((header as usize, &arrived[..]), (number, payload));
        sent.widen(); // its whole 64 KiB can receive the next message
        at_proxy = sent;
    }
    drop(at_proxy);
    assert_eq!(arena.spare(), arena.count());
    Ok(())
}

type End = QueuePair<Rc, Rts>;

/// Another connection in the same protection domain, so that both take the same buffers.
fn connected(
    context: &Context,
    pd: &ProtectionDomain,
) -> Result<(End, End, CompletionQueue), Box<dyn Error>> {
    let cq = context.create_cq(32)?;
    let create = || pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, Depth { send: 2, recv: 2 });
    let (one, two) = (create()?, create()?);
    let gid = context.roce_v2_gid(1)?;
    let address = AddressVector::roce_v2(gid, gid.gid())?;
    let psn = Psn::try_from(1)?;
    let up = |qp: QueuePair<Rc, Reset>, peer: u32| -> Result<End, Box<dyn Error>> {
        let qp = qp.modify(ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::empty() })?;
        let qp = qp.modify(RcRtr::new(address, Qpn::try_from(peer)?, psn))?;
        Ok(qp.modify(RcRts::new(psn, ReadDepth::ONE))?)
    };
    let (one_num, two_num) = (one.qp_num(), two.qp_num());
    Ok((up(one, two_num)?, up(two, one_num)?, cq))
}

/// The received message. The buffer that was sent returns to the arena.
fn received(cq: &mut CompletionQueue) -> Result<Buf, Box<dyn Error>> {
    Ok(both(cq)?.0)
}

/// The received message, and the buffer that was sent.
fn both(cq: &mut CompletionQueue) -> Result<(Buf, Buf), Box<dyn Error>> {
    let (mut arrived, mut sent) = (None, None);
    loop {
        for completion in cq.poll()? {
            match completion.outcome() {
                Outcome::Received(message) => arrived = message.entry,
                Outcome::Sent(done) => sent = done.entry,
                Outcome::Failed(failed) => return Err(failed.error.into()),
                _ => return Err("an unexpected completion".into()),
            }
        }
        if arrived.is_some() && sent.is_some() {
            break;
        }
    }
    Ok(arrived.zip(sent).ok_or("each has a buffer")?)
}
