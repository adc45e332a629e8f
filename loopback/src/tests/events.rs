//! Completion channels.

use super::*;
use std::os::fd::BorrowedFd;
use std::sync::mpsc;

use proverbs_sys::events::{try_get_cq_event, wait_readable};

/// The name that a test gives its queue.
const NAME: usize = 17;

struct Channel {
    context: *mut ibv_context,
    channel: *mut ibv_comp_channel,
    cq: *mut ibv_cq,
}

/// Replaces the end's completion queue with one that has a channel.
fn with_channel(end: &mut End) -> Channel {
    let context = end.context;
    let channel = unsafe { (LOOPBACK.create_comp_channel)(context) }.unwrap().as_ptr();
    let cq = unsafe { (LOOPBACK.create_cq)(context, 16, channel, 0) }.unwrap().as_ptr();
    unsafe { (*cq).cq_context = ptr::without_provenance_mut(NAME) };
    Channel { context, channel, cq: std::mem::replace(&mut end.cq, cq) }
}

impl Channel {
    /// Restores the end's own queue.
    fn close(self, end: &mut End) {
        let cq = std::mem::replace(&mut end.cq, self.cq);
        assert_eq!(unsafe { (LOOPBACK.destroy_comp_channel)(self.channel) }, Err(libc::EBUSY));
        assert_eq!(unsafe { (LOOPBACK.destroy_cq)(cq) }, Ok(()));
        assert_eq!(unsafe { (LOOPBACK.destroy_comp_channel)(self.channel) }, Ok(()));
    }

    fn arm(&self, cq: *mut ibv_cq, solicited: i32) {
        let arm = unsafe { (*self.context).ops.req_notify_cq }.unwrap();
        assert_eq!(unsafe { arm(cq, solicited) }, 0);
    }

    /// The name of the queue that has an event.
    fn event(&self) -> Result<u64, i32> {
        unsafe { try_get_cq_event(&LOOPBACK, self.channel) }
    }
}

/// A queue pair that talks to itself and completes into `end.cq`.
fn talker(end: &mut End) {
    let mut fresh = ibv_qp_init_attr {
        send_cq: end.cq,
        recv_cq: end.cq,
        cap: ibv_qp_cap {
            max_send_wr: 4,
            max_recv_wr: 4,
            max_send_sge: 1,
            max_recv_sge: 1,
            ..zeroed()
        },
        qp_type: RC.qp_type,
        ..zeroed()
    };
    assert_eq!(unsafe { (LOOPBACK.destroy_qp)(end.qp) }, Ok(()));
    end.qp = unsafe { (LOOPBACK.create_qp)(end.pd, &mut fresh) }.unwrap().as_ptr();
    assert_eq!((end.init(&RC), end.rtr(&RC, end), end.rts(&RC)), (0, 0, 0));
}

fn drop_qp(end: &mut End) {
    assert_eq!(unsafe { (LOOPBACK.destroy_qp)(end.qp) }, Ok(()));
    end.qp = ptr::null_mut();
}

/// Proves R13.2.
#[test]
fn an_arming_gives_one_event() {
    let mut end = End::new(&Fabric::new(), &RC);
    let channel = with_channel(&mut end);
    talker(&mut end);
    let say = |flags| {
        assert_eq!(end.post_recv(1, &[]), 0);
        assert_eq!(end.post_send(&SendWr::send(2, &[]).flags(SIGNALED | flags)), 0);
        end.polled();
    };
    assert_eq!(channel.event(), Err(libc::EAGAIN));
    say(0);
    assert_eq!(channel.event(), Err(libc::EAGAIN), "not armed");
    channel.arm(end.cq, 1);
    say(0);
    assert_eq!(channel.event(), Err(libc::EAGAIN), "not solicited");
    say(SOLICITED);
    assert_eq!(channel.event(), Ok(NAME as u64));
    say(SOLICITED);
    assert_eq!(channel.event(), Err(libc::EAGAIN), "armed once");
    channel.arm(end.cq, 0);
    channel.arm(end.cq, 1);
    say(0);
    assert_eq!(channel.event(), Ok(NAME as u64), "still armed for any");
    drop_qp(&mut end);
    channel.close(&mut end);
}

/// Proves R13.9.
#[test]
fn a_failure_counts_as_solicited_and_untaken_events_go_with_the_queue() {
    let mut end = End::new(&Fabric::new(), &RC);
    let channel = with_channel(&mut end);
    talker(&mut end);
    channel.arm(end.cq, 1);
    assert_eq!(end.post_recv(1, &[]), 0);
    assert_eq!(end.go(ibv_qp_state::IBV_QPS_ERR), 0);
    assert_eq!(channel.event(), Ok(NAME as u64));
    channel.arm(end.cq, 0);
    assert_eq!(end.post_recv(1, &[]), 0);
    end.state();
    drop_qp(&mut end);
    channel.close(&mut end);
}

#[test]
fn a_post_on_another_thread_wakes_a_sleeper() {
    let mut end = End::new(&Fabric::new(), &RC);
    let channel = with_channel(&mut end);
    talker(&mut end);
    channel.arm(end.cq, 0);
    struct Sent<T>(T);
    unsafe impl<T> Send for Sent<T> {}
    impl<T> Sent<T> {
        fn open(self) -> T {
            self.0
        }
    }
    let sent = Sent(channel.channel);
    let (tell, told) = mpsc::channel();
    let sleeper = std::thread::spawn(move || {
        let channel = sent.open();
        tell.send(()).unwrap();
        let fd = unsafe { (*channel).fd };
        loop {
            match unsafe { try_get_cq_event(&LOOPBACK, channel) } {
                Err(libc::EAGAIN) => {
                    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                    wait_readable([fd], -1).map(drop).unwrap();
                }
                event => return event,
            }
        }
    });
    told.recv().unwrap();
    std::thread::yield_now();
    assert_eq!(end.post_recv(1, &[]), 0);
    assert_eq!(end.post_send(&SendWr::send(2, &[])), 0);
    assert_eq!(sleeper.join().unwrap(), Ok(NAME as u64));
    drop_qp(&mut end);
    channel.close(&mut end);
}
