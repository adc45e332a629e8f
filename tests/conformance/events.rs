//! Completion channels: sleeping until something is there, and never past it.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use proverbs::*;

use crate::support::*;

/// A pair whose second end has its completion queue on a channel.
struct Waiting {
    p: Pair<Rc>,
    to: QueuePair<Rc, Rts>,
    cq: CompletionQueue,
    channel: CompletionChannel,
}

fn waiting() -> Waiting {
    let p = Pair::<Rc>::new();
    let channel = p.dev.ctx.create_comp_channel().unwrap();
    let cq = p.dev.ctx.create_cq_on(20, &channel).unwrap();
    let wish = Wish::new();
    let Pair { a, b, ca, cb, pool, pd, dev } = p;
    let (a, _) = a.reset().unwrap();
    let to = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, wish.depth).unwrap();
    let (na, nt) = (a.qp_num(), to.qp_num());
    let (a, to) = (Rc::up(a, &dev, nt, &wish), Rc::up(to, &dev, na, &wish));
    Waiting { p: Pair { a, b, ca, cb, pool, pd, dev }, to, cq, channel }
}

fn first_byte<'cq>(completions: impl Iterator<Item = Completion<'cq, Buf>>) -> Vec<u8> {
    completions.map(|completion| completion.into_entry().unwrap()[0]).collect()
}

#[test]
fn what_is_there_already_is_not_slept_past() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    for i in 0..3 {
        to.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(Send::new(filled(&p.pool, &[i]))).unwrap();
    }
    poll(&p.dev, &mut p.ca, 3);
    assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [0, 1, 2]);
}

#[test]
fn every_wait_of_many_finds_something() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    for i in 0..10u8 {
        to.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(Send::new(filled(&p.pool, &[i]))).unwrap();
        assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [i]);
        poll(&p.dev, &mut p.ca, 1);
    }
    // Events that nobody took, and events of an empty queue, are no harm.
    assert_eq!(poll_empty(&mut cq), 0);
    drop((to, channel, cq));
}

#[test]
fn another_thread_wakes_the_sleeper() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    let rounds = if cfg!(miri) { 2 } else { 20 };
    for _ in 0..8 {
        to.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
    }
    let pool = p.pool.clone();
    let sleeper = std::thread::spawn(move || {
        let mut got = Vec::new();
        while got.len() < rounds {
            for completion in channel.wait(&mut cq).unwrap() {
                got.push(completion.into_entry().unwrap()[0]);
            }
            while to.recv_room() > 0 {
                to.post_recv(Recv::new(poisoned(&pool))).unwrap();
            }
        }
        got
    });
    for i in 0..rounds {
        p.a.post_send(Send::new(filled(&p.pool, &[i as u8]))).unwrap();
        poll(&p.dev, &mut p.ca, 1);
    }
    assert_eq!(sleeper.join().unwrap(), (0..rounds as u8).collect::<Vec<_>>());
}

#[test]
#[cfg_attr(miri, ignore = "Miri cannot make a socket non-blocking")]
fn a_descriptor_that_does_not_block_is_waited_for_all_the_same() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    // Not a socket on a real device; `set_nonblocking` is a control call of any descriptor, and
    // the flag belongs to the open file, which a duplicate shares.
    let duplicate = channel.as_fd().try_clone_to_owned().unwrap();
    UnixStream::from(duplicate).set_nonblocking(true).unwrap();
    for i in 0..3 {
        to.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
        p.a.post_send(Send::new(filled(&p.pool, &[i]))).unwrap();
        assert_eq!(first_byte(channel.wait(&mut cq).unwrap()), [i]);
    }
    poll(&p.dev, &mut p.ca, 3);
}

#[test]
fn errors_wake_too() {
    let Waiting { mut p, mut to, mut cq, mut channel } = waiting();
    to.post_recv(Recv::new(poisoned(&p.pool))).unwrap();
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(4096, 8, 0xdead_0000);
    p.a.post_send(RdmaWrite::inline(&[1; 8], nowhere.write())).unwrap();
    poll(&p.dev, &mut p.ca, 1).remove(0).failed(Direction::Send, WcStatus::RemAccess);
    let flushed = channel.wait(&mut cq).unwrap().next().unwrap();
    assert_eq!(flushed.status().unwrap_err().status, WcStatus::WrFlush);
    assert_eq!(flushed.direction(), Direction::Receive);
}

#[test]
fn a_queue_that_is_not_on_the_channel_is_refused() {
    let Waiting { mut p, mut channel, .. } = waiting();
    let error = channel.wait(&mut p.ca).err().expect("not on the channel");
    let text = "ibv_get_cq_event: EINVAL: Invalid argument (the completion queue is \
                not on this channel)";
    assert_eq!(said(&error), text);
}
