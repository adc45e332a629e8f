//! The calls of rdma_verbs.h.

use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use proverbs::cm::*;
use proverbs::completion::WcOpcode;
use proverbs::memory::AnyBuf;
use proverbs::qp::SharedRq;
use proverbs::transport::Rc;
use proverbs::wr;
use proverbs::{
    Buf, DefaultProfile, Depth, ErrorKind, Outcome, PostError, SharedReceiveQueue, profile,
};

use crate::support::{address, event_channel, fabric, is_iwarp, listener, long, routed};

/// The program's own context, which no pointer cast could distinguish from another.
#[derive(Debug, Default, PartialEq)]
enum Task {
    #[default]
    None,
    Named(String),
    WithId(u32),
}

profile! {
    Vectored { max_send_sge: 4, max_recv_sge: 4, entry: AnyBuf<Task> }
}
profile! { Served { receive: SharedRq } }

const DEPTH: Depth = Depth { send: 8, recv: 8 };

fn entry(outcome: Outcome<'_, AnyBuf<Task>>) -> (WcOpcode, u32, AnyBuf<Task>) {
    match outcome {
        Outcome::Sent(sent) => (sent.opcode, 0, sent.entry.unwrap()),
        Outcome::Received(got) => (got.opcode, got.byte_len, got.entry.unwrap()),
        Outcome::Failed(failed) => panic!("{}", failed.error),
        _ => panic!("neither sent nor received"),
    }
}

/// Every post, read and write between two endpoints; contexts come back as the program's own type.
/// Proves R3.9, R7.13, R16.10, R16.11.
/// Ends: Ep::drain, Ep::get_recv_comp, Ep::get_send_comp.
#[test]
fn every_call_of_rdma_verbs_between_two_endpoints() {
    if is_iwarp() {
        return; // R24.4: the profile has READs into four elements
    }
    let node = address(0).ip().to_string();
    let passive = match fabric() {
        Some((fabric, _)) => PassiveInfo::<Tcp>::look_up_on(fabric, Some(&node), "0"),
        None => PassiveInfo::look_up(Some(&node), "0"),
    };
    let listening = passive.unwrap()[0].listen(8).unwrap();
    let service = listening.local_addr().unwrap().port().to_string();
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let request = listening.get_request().unwrap();
        let mut ep = request.create_ep::<Vectored>(None, DEPTH).unwrap();
        let pool = ep.reg_msgs::<Task>(8, 64).unwrap();
        let take = || pool.take().unwrap();
        ep.post_recv(Task::Named("first".into()), take()).unwrap();
        ep.post_recvv(Task::WithId(2), [take(), take()]).unwrap();
        // The client reads one region and writes the other.
        let (to_read, to_write) = (ep.reg_read(64).unwrap(), ep.reg_write(64).unwrap());
        to_read.write_at(0, b"to be read").unwrap();
        let mut private_data = to_read.remote().to_bytes().to_vec();
        private_data.extend(to_write.remote().to_bytes());
        let param = AcceptParam {
            private_data: PrivateData::new(&private_data).unwrap(),
            ..Default::default()
        };
        let mut ep = ep.accept(&param, long()).unwrap();
        assert!(ep.private_data.starts_with(b"hello") && ep.peer.is_some());
        tell.send(()).unwrap();

        let (opcode, len, buf) = entry(ep.get_recv_comp().unwrap());
        let buf = buf.into_buf().unwrap();
        assert_eq!((opcode, len, &buf[..]), (WcOpcode::Recv, 5, &b"hello"[..]));
        assert_eq!(*buf.context(), Task::Named("first".into()));

        // 100 bytes in two buffers of 64.
        let (_, len, list) = entry(ep.get_recv_comp_timeout(long()).unwrap());
        let list = list.into_list().unwrap();
        let lengths: Vec<_> = list.segments().map(<[u8]>::len).collect();
        assert_eq!((len, lengths), (100, vec![64, 36]));
        let mut list = list;
        assert_eq!(*list.pop_front().unwrap().context(), Task::WithId(2));

        // The message was sent after the write on the same queue pair, so the write has arrived
        // (R10.11).
        let mut written = [0; 13];
        to_write.read_at(0, &mut written).unwrap();
        assert_eq!(&written, b"writtenboth!!");

        ep.id.wait_disconnected(long()).unwrap();
        let mut ep = ep.disconnect().unwrap();
        ep.drain(|_| panic!("nothing is posted")).unwrap();
        drop((ep, list, buf));
        assert_eq!(pool.available(), 8);
    });

    let info = match fabric() {
        Some((fabric, _)) => AddrInfo::<Tcp>::look_up_on(fabric, &node, &service),
        None => AddrInfo::look_up(&node, &service),
    };
    let ep = info.unwrap()[0].create_ep::<Vectored>(None, DEPTH, long()).unwrap();
    let pool = ep.reg_msgs::<Task>(8, 64).unwrap();
    let private_data = PrivateData::of(b"hello");
    let mut ep = ep.connect(&ConnParam { private_data, ..Default::default() }, long()).unwrap();
    ep.post_recv(Task::WithId(77), pool.take().unwrap()).unwrap(); // the peer does not send
    let remote = proverbs::RemoteSlice::<proverbs::memory::RemoteRead>::from_bytes(
        &ep.private_data[..24].try_into().unwrap(),
    )
    .unwrap();
    let to_write = proverbs::RemoteSlice::<proverbs::memory::RemoteWrite>::from_bytes(
        &ep.private_data[24..48].try_into().unwrap(),
    )
    .unwrap();
    let filled = |bytes: &[u8]| {
        let mut buf = pool.take().unwrap();
        buf.copy_from(bytes).unwrap();
        buf
    };
    ep.post_read(Task::WithId(1), pool.take().unwrap(), remote.read()).unwrap();
    let (opcode, _, buf) = entry(ep.get_send_comp().unwrap());
    let mut buf = buf.into_buf().unwrap();
    buf.set_len(10);
    assert_eq!((opcode, &buf[..]), (WcOpcode::RdmaRead, &b"to be read"[..]));
    assert_eq!(*buf.context(), Task::WithId(1));
    drop(buf);
    let rest = to_write.slice(7, 57).unwrap();
    ep.post_write(Task::WithId(2), filled(b"written"), to_write.write()).unwrap();
    ep.post_writev(Task::WithId(3), [filled(b"both"), filled(b"!!")], rest.write()).unwrap();
    ep.post_send(Task::WithId(4), filled(b"hello")).unwrap();
    for (i, wanted) in [WcOpcode::RdmaWrite, WcOpcode::RdmaWrite, WcOpcode::Send].iter().enumerate()
    {
        let (opcode, _, entry) = entry(ep.get_send_comp_timeout(long()).unwrap());
        let buf = match entry {
            AnyBuf::List(mut list) => list.pop_front().unwrap(),
            other => other,
        };
        let buf = buf.into_buf().unwrap();
        assert_eq!((opcode, buf.context()), (*wanted, &Task::WithId(2 + i as u32)));
    }
    ep.post_sendv(Task::None, [filled(&[1; 50]), filled(&[2; 50])]).unwrap();
    assert_eq!(entry(ep.get_send_comp().unwrap()).0, WcOpcode::Send);

    // If this side leaves before the other one has its event, the other's `accept` sees a
    // disconnection.
    told.recv_timeout(long()).unwrap();
    let mut ep = ep.disconnect().unwrap();
    ep.id.wait_disconnected(long()).unwrap();
    let mut flushed = Vec::new();
    ep.drain(|entry| flushed.push(entry)).unwrap();
    assert_eq!(*flushed.pop().unwrap().into_buf().unwrap().context(), Task::WithId(77));
    drop(ep);
    assert_eq!(pool.available(), 8);
    server.join().unwrap();
}

type OnAChannel<S> = Ep<Tcp, S, DefaultProfile, OnChannel>;

type Advance<W> = fn(W, &Event) -> Progress<<W as Waits>::Done, W, <W as Waits>::Failed>;

/// Passes events to a waiting step until it is done or failed.
fn finish<W: Waits>(
    channel: &EventChannel,
    mut begun: W,
    step: Advance<W>,
) -> Result<W::Done, (W::Failed, proverbs::Error)> {
    loop {
        let event = channel.wait_timeout(long()).unwrap().expect("an event, in time");
        match step(begun, &event) {
            Progress::Done(done) => return Ok(done),
            Progress::Waiting(waiting) => begun = waiting,
            Progress::Failed(refused) => return Err(refused.into_parts()),
        }
    }
}

/// An endpoint on a channel that has requested a connection, and the request.
fn asked() -> (EventChannel, EpPending<Pending>, EventChannel, Request<Tcp, OnChannel>) {
    let (here, there) = (event_channel(), event_channel());
    let listening = there.create_id::<Tcp>().unwrap().bind_addr(address(0)).unwrap();
    let listening = listening.listen(8).unwrap();
    let ep = routed::<Tcp>(listening.local_addr().unwrap());
    let ep = ep.create_ep::<DefaultProfile>(None, DEPTH).unwrap().migrate_to(&here).unwrap();
    let asking = ep.connect(&ConnParam::default()).unwrap();
    let event = there.wait_timeout(long()).unwrap().expect("a request, in time");
    let request = listening.request(event).unwrap();
    (here, asking, there, request)
}

/// The next receive completion; this does not sleep on the descriptor.
fn received<S: EpState<Tcp>>(ep: &mut OnAChannel<S>) -> Buf {
    let began = Instant::now();
    loop {
        match ep.try_recv_comp().unwrap() {
            Some(Outcome::Received(got)) => return got.entry.unwrap(),
            Some(_) => panic!("no receive"),
            None => assert!(began.elapsed() < long(), "no message"),
        }
    }
}

/// Proves R23.7.
#[test]
fn endpoints_connect_by_events() {
    let (here, asking, there, request) = asked();
    let mut ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    let pool = ep.reg_msgs::<()>(4, 64).unwrap();
    ep.post_recv((), pool.take().unwrap()).unwrap();
    let param = AcceptParam { private_data: PrivateData::of(b"welcome"), ..Default::default() };
    let answering = ep.accept(&param).unwrap();
    assert_ne!(asking.key(), answering.key());
    let mut client = finish(&here, asking, EpPending::advance).unwrap();
    let mut server: OnAChannel<Established> =
        finish(&there, answering, EpPending::advance).unwrap();
    assert!(client.private_data.starts_with(b"welcome") && client.peer.is_some());

    assert!(server.try_recv_comp().unwrap().is_none(), "nothing was sent");
    let mine = client.reg_msgs::<()>(1, 64).unwrap();
    let mut hello = mine.take().unwrap();
    hello.copy_from(b"hello").unwrap();
    client.post_send((), hello).unwrap();
    assert_eq!(received(&mut server)[..], *b"hello");
    assert!(server.try_recv_comp().unwrap().is_none(), "no other message");
    let began = Instant::now();
    while client.try_send_comp().unwrap().is_none() {
        assert!(began.elapsed() < long(), "the send must complete");
    }

    // From the channel and back; its end is found there.
    let server = server.into_synchronous().unwrap().migrate_to(&there).unwrap();
    let mut client = client.disconnect().unwrap();
    let mut server = finish(&there, server, Ep::advance).unwrap();
    server.drain(|_| panic!("nothing is posted")).unwrap();
    client.drain(|_| panic!("nothing is posted")).unwrap();
    let mut client = client.into_synchronous().unwrap();
    client.id.wait_disconnected(long()).unwrap();
    let EpParts { qp, send, mut recv, .. } = client.into_parts();
    // One more than the depth, for the marker of a drain.
    assert!(send.0.capacity() > DEPTH.send && recv.0.capacity() > DEPTH.recv);
    assert_eq!(recv.0.poll().unwrap().count(), 0);
    drop((qp, send, recv));
    let EpParts { recv: (_cq, mut channel), .. } = server.into_parts();
    let left = channel.try_event().unwrap();
    assert!(left.is_none(), "the event of a completion that was already taken wakes no thread");
}

/// The endpoint is returned, and so are posted buffers.
/// Proves R23.7.
#[test]
fn a_refused_endpoint_is_returned() {
    let (here, asking, _there, request) = asked();
    request.reject(&RejectData::of(b"no")).unwrap();
    let (mut ep, error) = finish(&here, asking, EpPending::advance).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Rejected { .. }) || is_iwarp(), "{error}");
    ep.drain(|_| panic!("nothing is posted")).unwrap();

    // Abandoned by this side, with a receive posted.
    let (_here, asking, _there, request) = asked();
    let mut ep = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    let pool = ep.reg_msgs::<()>(1, 64).unwrap();
    let posted: Result<(), PostError<Buf>> = ep.post_recv((), pool.take().unwrap());
    posted.unwrap();
    let mut ep = ep.accept(&AcceptParam::default()).unwrap().cancel();
    let mut home = 0;
    ep.drain(|_| home += 1).unwrap();
    assert_eq!((home, pool.available()), (1, 1));
    drop(asking.cancel());
}

/// Two endpoints receive from one queue, each with a completion queue that has room for all
/// buffers. A drain returns the messages that it finds.
/// Proves R7.13, R9.9.
#[test]
fn endpoints_on_a_shared_receive_queue() {
    let (listening, at) = listener::<Tcp>();
    let (tell, told) = mpsc::channel();
    let server = thread::spawn(move || {
        let first = listening.get_request().unwrap();
        let pd = first.id.pd().unwrap();
        let arena: proverbs::Arena = pd.create_arena(4096, 4).unwrap();
        let mut srq: SharedReceiveQueue<Rc> = first.id.create_srq(&arena).unwrap();
        let mut first = Some(first);
        let mut eps = [(); 2].map(|()| {
            let request = first.take().unwrap_or_else(|| listening.get_request().unwrap());
            let ep = request.create_ep::<Served>(Some(&pd), Depth::on_srq(2, &srq)).unwrap();
            ep.accept(&AcceptParam::default(), long()).unwrap()
        });
        for _ in 0..4 {
            srq.post_srq_recv(wr::Recv::new(arena.take(16).unwrap())).unwrap();
        }
        tell.send(()).unwrap();
        for ep in &mut eps {
            match ep.get_recv_comp_timeout(long()).unwrap() {
                Outcome::Received(got) => assert_eq!(&got.entry.unwrap()[..], b"one"),
                outcome => panic!("{outcome:?}"),
            }
        }
        let mut found = Vec::new();
        for mut ep in eps {
            ep.id.wait_disconnected(long()).unwrap();
            let mut ep = ep.disconnect().unwrap();
            ep.drain(|buf| found.push(buf[..].to_vec())).unwrap();
        }
        assert_eq!(found, [b"two", b"two"]);
    });
    let mut clients = [(); 2].map(|()| {
        let ep = routed::<Tcp>(at).create_ep::<DefaultProfile>(None, DEPTH).unwrap();
        ep.connect(&ConnParam::default(), long()).unwrap()
    });
    told.recv_timeout(long()).unwrap();
    for ep in &mut clients {
        for message in [*b"one", *b"two"] {
            ep.qp.post_send(wr::Send::inline(&message)).unwrap();
            assert!(matches!(ep.get_send_comp_timeout(long()).unwrap(), Outcome::Sent(_)));
        }
    }
    for ep in clients {
        ep.disconnect().unwrap();
    }
    server.join().unwrap();
}

/// Proves R23.7.
#[test]
fn a_service_is_looked_up_by_events() {
    if is_iwarp() {
        return; // R24.2
    }
    let (listening, at) = listener::<Udp>();
    let here = event_channel();
    let ep = routed::<Udp>(at).create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    let asking = ep.migrate_to(&here).unwrap().connect(&LookupData::of(b"who?")).unwrap();
    let request = listening.get_request_timeout(long()).unwrap();
    assert!(request.private_data.starts_with(b"who?"));
    let service = request.create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    let number = service.qp.qp_num();
    let _service = service.accept(&ReplyData::of(b"me")).unwrap();
    let (ep, peer) = finish(&here, asking, EpPending::advance).unwrap();
    assert_eq!(peer.qpn.get(), number);
    assert!(ep.private_data.starts_with(b"me"));

    // There is no listener.
    let nobody = routed::<Udp>(at).create_ep::<DefaultProfile>(None, DEPTH).unwrap();
    drop(listening);
    let nobody = nobody.migrate_to(&here).unwrap().connect(&LookupData::none()).unwrap();
    let (_ep, error) = finish(&here, nobody, EpPending::advance).unwrap_err();
    assert_eq!(error.verb(), "rdma_connect");
}
