//! The descriptors that the crate shows, so that event loops can watch them, read and closed by the program.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsFd;
use std::time::Duration;

use proverbs::*;

use crate::support::*;

/// Who reads the descriptor of a channel takes a wake-up away, and hangs nobody who does not sleep for it. (With
/// a kernel's device it takes the event itself, for which libibverbs waits when the queue is destroyed.)
#[test]
#[cfg_attr(miri, ignore = "Miri's sockets block differently")]
fn who_reads_the_descriptor_of_a_channel() {
    let dev = Device::loopback(&Device::fabric());
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(4, 64).unwrap();
    let mut channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq = dev.ctx.create_cq_on(30, &channel).unwrap();
    let depth = Depth { send: 2, recv: 2 };
    let mut thief = File::from(channel.as_fd().try_clone_to_owned().unwrap());
    for _ in 0..3 {
        let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
        let mut qp = Rc::init(qp, &Wish::new());
        assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
        qp.post_recv(Recv::new(poisoned(&pool))).unwrap();
        let qp = qp.to_error().unwrap();
        // The wake-up goes to the thief; the completion, and the event, are still there.
        assert_eq!(thief.read(&mut [0; 8]).unwrap(), 1);
        let _ = channel.try_event().unwrap();
        let short = Duration::from_millis(1);
        assert_eq!(channel.wait_timeout(&mut cq, short).unwrap().count(), 1);
        drop(qp);
    }
    cq.destroy().unwrap();
    channel.destroy().unwrap();
    assert_eq!(pool.available(), 4);
}
