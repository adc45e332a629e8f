//! The calls of rdma_verbs.h.

use std::sync::mpsc;
use std::thread;

use proverbs::cm::*;
use proverbs::completion::WcOpcode;
use proverbs::memory::AnyBuf;
use proverbs::{Depth, Outcome, profile};

use crate::support::{LONG, address, fabric, is_iwarp};

/// The program's own context, which no pointer cast could tell from another.
#[derive(Debug, Default, PartialEq)]
enum Task {
    #[default]
    None,
    Named(String),
    Numbered(u32),
}

profile! {
    Vectored { max_send_sge: 4, max_recv_sge: 4, entry: AnyBuf<Task> }
}

const DEPTH: Depth = Depth { send: 8, recv: 8 };

fn entry(outcome: Outcome<'_, AnyBuf<Task>>) -> (WcOpcode, u32, AnyBuf<Task>) {
    match outcome {
        Outcome::Sent(sent) => (sent.opcode, 0, sent.entry.unwrap()),
        Outcome::Received(got) => (got.opcode, got.byte_len, got.entry.unwrap()),
        Outcome::Failed(failed) => panic!("{}", failed.error),
        _ => panic!("neither sent nor received"),
    }
}

/// Every post, read and write between two endpoints; contexts come back, as the program's own type.
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
        ep.post_recvv(Task::Numbered(2), [take(), take()]).unwrap();
        // The client reads one region and writes the other.
        let (to_read, to_write) = (ep.reg_read(64).unwrap(), ep.reg_write(64).unwrap());
        to_read.write_at(0, b"to be read").unwrap();
        let mut private_data = to_read.remote().to_bytes().to_vec();
        private_data.extend(to_write.remote().to_bytes());
        let param = AcceptParam {
            private_data: PrivateData::new(&private_data).unwrap(),
            ..Default::default()
        };
        let mut ep = ep.accept(&param, LONG).unwrap();
        tell.send(()).unwrap();

        let (opcode, len, buf) = entry(ep.get_recv_comp().unwrap());
        let buf = buf.into_buf().unwrap();
        assert_eq!((opcode, len, &buf[..]), (WcOpcode::Recv, 5, &b"hello"[..]));
        assert_eq!(*buf.context(), Task::Named("first".into()));

        // 100 bytes in two buffers of 64.
        let (_, len, list) = entry(ep.get_recv_comp_timeout(LONG).unwrap());
        let list = list.into_list().unwrap();
        let lengths: Vec<_> = list.segments().map(<[u8]>::len).collect();
        assert_eq!((len, lengths), (100, vec![64, 36]));
        let mut list = list;
        assert_eq!(*list.pop_front().unwrap().context(), Task::Numbered(2));

        // The message came after the write on the same queue pair, so the write is there (R10.11).
        let mut written = [0; 13];
        to_write.read_at(0, &mut written).unwrap();
        assert_eq!(&written, b"writtenboth!!");

        ep.id.wait_disconnected(LONG).unwrap();
        let mut ep = ep.disconnect().unwrap();
        ep.drain(|_| panic!("nothing is posted")).unwrap();
        drop((ep, list, buf));
        assert_eq!(pool.available(), 8);
    });

    let info = match fabric() {
        Some((fabric, _)) => AddrInfo::<Tcp>::look_up_on(fabric, &node, &service),
        None => AddrInfo::look_up(&node, &service),
    };
    let ep = info.unwrap()[0].create_ep::<Vectored>(None, DEPTH, LONG).unwrap();
    let pool = ep.reg_msgs::<Task>(8, 64).unwrap();
    let mut ep = ep.connect(&ConnParam::default(), LONG).unwrap();
    ep.post_recv(Task::Numbered(77), pool.take().unwrap()).unwrap(); // nobody sends
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
    ep.post_read(Task::Numbered(1), pool.take().unwrap(), remote.read()).unwrap();
    let (opcode, _, buf) = entry(ep.get_send_comp().unwrap());
    let mut buf = buf.into_buf().unwrap();
    buf.set_len(10);
    assert_eq!((opcode, &buf[..]), (WcOpcode::RdmaRead, &b"to be read"[..]));
    assert_eq!(*buf.context(), Task::Numbered(1));
    drop(buf);
    let rest = to_write.slice(7, 57).unwrap();
    ep.post_write(Task::Numbered(2), filled(b"written"), to_write.write()).unwrap();
    ep.post_writev(Task::Numbered(3), [filled(b"both"), filled(b"!!")], rest.write()).unwrap();
    ep.post_send(Task::Numbered(4), filled(b"hello")).unwrap();
    for (i, wanted) in [WcOpcode::RdmaWrite, WcOpcode::RdmaWrite, WcOpcode::Send].iter().enumerate()
    {
        let (opcode, _, entry) = entry(ep.get_send_comp_timeout(LONG).unwrap());
        let buf = match entry {
            AnyBuf::List(mut list) => list.pop_front().unwrap(),
            other => other.into_buf().unwrap(),
        };
        assert_eq!((opcode, buf.context()), (*wanted, &Task::Numbered(2 + i as u32)));
    }
    ep.post_sendv(Task::None, [filled(&[1; 50]), filled(&[2; 50])]).unwrap();
    assert_eq!(entry(ep.get_send_comp().unwrap()).0, WcOpcode::Send);

    // Who leaves before the other side knows of the connection is a disconnection to its `accept`.
    told.recv_timeout(LONG).unwrap();
    let mut ep = ep.disconnect().unwrap();
    ep.id.wait_disconnected(LONG).unwrap();
    let mut flushed = Vec::new();
    ep.drain(|entry| flushed.push(entry)).unwrap();
    assert_eq!(*flushed.pop().unwrap().into_buf().unwrap().context(), Task::Numbered(77));
    drop(ep);
    assert_eq!(pool.available(), 8);
    server.join().unwrap();
}
