//! Memory windows: a client opens its memory for one request, and the reply closes it. The client
//! asks a server to process some bytes. It binds two windows, one to the question and one to the
//! space for the answer, and sends both keys: BIND_MW, BIND_MW and a fenced SEND, in one post. The
//! server READs the question and WRITEs the answer. Its last message invalidates the key of the
//! answer (SEND_WITH_INV). The client invalidates the other key (LOCAL_INV). Then no peer can
//! access its memory any more, although its region stays registered.
//!
//! Both ends are in this process: on the first RDMA device, or on the loopback device if there is
//! none.

#![forbid(unsafe_code)]

use proverbs::completion::{Received, Sent, WcOpcode};
use proverbs::device::LinkLayer;
use proverbs::ext::windows::{
    BoundWindow, LentWindow, MemoryWindow, Revocable, WindowEntry, Windowed,
};
use proverbs::loopback::Fabric;
use proverbs::post::PostErrorKind;
use proverbs::prelude::*;
use std::error::Error;

type Failure = Box<dyn Error>;

// The completion of a bind returns its window, and the completion of a SEND its buffer.
profile! { Ends { entry: AnyBuf } }

type End = QueuePair<Rc, Rts, Ends>;
type Queue = CompletionQueue<AnyBuf>;

const HALF: usize = 64;

fn main() -> Result<(), Failure> {
    let context = match devices().as_deref() {
        Ok([first, ..]) => Context::open(&first.name)?,
        none => {
            // Perhaps libibverbs is not installed, or this process may not open the device's file.
            if let Err(why) = none {
                println!("{why}");
            }
            println!("no RDMA device here: on the loopback device");
            Fabric::new().open_device()
        }
    };
    let pd = context.alloc_pd()?;
    let (mut client_cq, mut server_cq) = (context.create_cq(16)?, context.create_cq(16)?);
    let depth = Depth { send: 4, recv: 1 };
    let client = pd.create_qp::<Rc, Ends>(&client_cq, &client_cq, depth)?;
    let server = pd.create_qp::<Rc, Ends>(&server_cq, &server_cq, depth)?;
    let (client_num, server_num) = (client.qp_num(), server.qp_num());
    let mut client = connect(&context, client, server_num)?;
    let mut server = connect(&context, server, client_num)?;
    let pool = pd.create_pool(4, HALF)?;

    // Peers can access this region only through windows: it does not have its own key.
    let region = pd.register::<Windowed<LocalWrite>>(2 * HALF)?;
    let mut windows = (client.alloc_mw()?, client.alloc_mw()?);
    for question in ["in verbs there is no undo", "and a key is a key forever"] {
        server.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
        client.post_recv(wr::Recv::new(pool.take().ok_or("no buffer")?))?;
        ask(&mut client, &region, windows, question)?;
        serve(&mut server, &mut server_cq, &pool)?;
        windows = finish(&mut client, &mut client_cq, &region)?;
    }
    drop(windows);
    region.destroy()?; // no window is bound to it
    Ok(())
}

/// The client opens its memory, and sends the keys.
fn ask(
    client: &mut End,
    region: &MemoryRegion<Windowed<LocalWrite>>,
    (one, two): (MemoryWindow, MemoryWindow),
    question: &str,
) -> Result<(), Failure> {
    region.write_at(0, question.as_bytes())?;
    let asks = ext::windows::BindMw::<RemoteRead>::new(one, region, 0..question.len())?;
    let (answers, answer) =
        ext::windows::BindMw::<RemoteWrite>::new(two, region, HALF..2 * HALF)?.lend();
    // The keys are not valid yet. They become valid before the message is sent, because it follows
    // the binds.
    let mut keys = [0; 48];
    keys[..24].copy_from_slice(&asks.remote().to_bytes());
    keys[24..].copy_from_slice(&answer.to_bytes());
    post_send!(client, [asks, answers, wr::Send::inline(&keys).fence()])?;
    Ok(())
}

/// The server reads, writes, and invalidates the answer's key.
fn serve(server: &mut End, cq: &mut Queue, pool: &Pool) -> Result<(), Failure> {
    let request = wait(cq, |message| message.entry.and_then(AnyBuf::into_buf))?;
    let (question, answer) = request.split_first_chunk().ok_or("a short request")?;
    let answer = answer.first_chunk().ok_or("a short request")?;
    let question = RemoteSlice::<RemoteRead>::from_bytes(question).ok_or("not to be read")?;
    let answer = Revocable::<RemoteWrite>::from_bytes(answer).ok_or("not lent for writing")?;

    let mut text = pool.take().ok_or("no buffer")?;
    text.set_len(question.len() as usize);
    server.post_send(wr::RdmaRead::new(text, question.read()))?;
    let text = loop {
        if let Some(completion) = cq.poll_one()? {
            completion.status()?;
            if completion.opcode() == Some(WcOpcode::RdmaRead) {
                break completion.into_entry().and_then(AnyBuf::into_buf);
            }
        }
    };
    let mut text = text.ok_or("a READ has a buffer")?;
    text.make_ascii_uppercase();

    let len = text.len() as u8;
    post_send!(
        server,
        [
            wr::RdmaWrite::new(text, answer.write()),
            ext::windows::SendWithInv::inline(&[len], answer), // consumes `answer`, so no value names its key
        ]
    )?;
    Ok(())
}

/// The client gets its answer, and its memory back.
fn finish(
    client: &mut End,
    cq: &mut Queue,
    region: &MemoryRegion<Windowed<LocalWrite>>,
) -> Result<(MemoryWindow, MemoryWindow), Failure> {
    let (mut asks, mut lent, mut back): (Option<BoundWindow<RemoteRead>>, Option<LentWindow>, _) =
        (None, None, None);
    while back.is_none() {
        for completion in cq.poll()? {
            completion.status()?;
            let Some(window) = lent.take_if(|_| completion.invalidated_rkey().is_some()) else {
                if let Outcome::Sent(Sent { entry: Some(AnyBuf::Window(window)), .. }) =
                    completion.outcome()
                {
                    sort(window, &mut asks, &mut lent)?;
                }
                continue; // the request was sent
            };
            // The completion proves that the key is no longer valid, and is consumed.
            match window.revoked(completion) {
                Ok((window, message)) => {
                    let mut answer = vec![0; message.data().first().copied().unwrap_or(0).into()];
                    region.read_at(HALF, &mut answer)?;
                    println!("{}", String::from_utf8_lossy(&answer));
                    back = Some(window);
                }
                Err((window, _)) => lent = Some(window),
            }
        }
    }
    let asks = asks.ok_or("both were bound before the answer")?;
    let window = match client.post_send(ext::windows::LocalInv::new(asks)) {
        Ok(()) => loop {
            if let Some(completion) = cq.poll_one()? {
                completion.status()?;
                if let Some(AnyBuf::Window(window)) = completion.into_entry() {
                    break window.into_unbound()?;
                }
            }
        },
        // The rejected window is dropped, which invalidates its key. A new window replaces it.
        Err(error) if error.kind() == PostErrorKind::LocalInvOnSoftRoce => client.alloc_mw()?,
        Err(error) => return Err(error.into()),
    };
    let other = back.ok_or("the answer came")?;
    Ok((window, other))
}

/// The state of the window shows which of the two binds completed.
fn sort(
    window: WindowEntry,
    asks: &mut Option<BoundWindow<RemoteRead>>,
    lent: &mut Option<LentWindow>,
) -> Result<(), Failure> {
    match window.into_lent() {
        Ok(window) => *lent = Some(window),
        Err(refused) => *asks = Some(refused.into_object().into_bound()?),
    }
    Ok(())
}

/// Returns the result of `take` for the next message.
fn wait<R>(cq: &mut Queue, take: impl Fn(Received<AnyBuf>) -> Option<R>) -> Result<R, Failure> {
    loop {
        match cq.poll_one()?.map(Completion::outcome) {
            Some(Outcome::Received(message)) => return take(message).ok_or("no buffer".into()),
            Some(Outcome::Failed(failed)) => return Err(failed.error.into()),
            _ => {}
        }
    }
}

/// Connects `qp` to `peer`, a queue pair of the same port.
fn connect(context: &Context, qp: QueuePair<Rc, Reset, Ends>, peer: u32) -> Result<End, Failure> {
    let port = context.query_port(1)?;
    let index = match std::env::var("PROVERBS_GID_INDEX") {
        Ok(index) => index.parse()?,
        Err(_) if port.link_layer == LinkLayer::Ethernet => context.roce_v2_gid(1)?.index(),
        Err(_) => 0, // the GID of an InfiniBand port itself
    };
    let gid = context.query_gid(1, index)?;
    let address = AddressVector { dlid: port.lid, ..AddressVector::roce(1, gid, index) };
    let psn = Psn::try_from(7)?;
    let init = ConnectedInit { pkey_index: 0, port: 1, access: QpAccess::all() };
    let rtr = RcRtr::new(address, Qpn::try_from(peer)?, psn);
    let rts = RcRts::new(psn, ReadDepth::ONE);
    Ok(qp.modify(init)?.modify(rtr)?.modify(rts)?)
}
