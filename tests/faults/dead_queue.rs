//! Waiting on a completion queue that is dead is an error at once, and never a sleep (R10.12).

use std::sync::mpsc;

use super::*;

/// A queue that is armed and empty when it dies, its channel, and a queue pair with a receive outstanding in it.
fn dead() -> (CompletionQueue, CompletionChannel, QueuePair<Rc, Error>) {
    let fabric = Device::fabric();
    let dev = Device::loopback(&fabric);
    let pd = dev.ctx.alloc_pd().unwrap();
    let pool = pd.create_pool(1, 64).unwrap();
    let channel = dev.ctx.create_comp_channel().unwrap();
    let mut cq: CompletionQueue = dev.ctx.create_cq_on(8, &channel).unwrap();
    let depth = Depth { send: 1, recv: 1 };
    let qp = pd.create_qp::<Rc, DefaultProfile>(&cq, &cq, depth).unwrap();
    let mut qp = Rc::init(qp, &Wish::new());
    assert!(cq.poll_or_arm(Notify::Any).unwrap().is_empty());
    qp.post_recv(Recv::new(pool.take().unwrap())).unwrap();
    let qp = qp.to_error().unwrap();
    fabric.inject(Script::seeded(0).with(Fault::BreakCq.nth(0)));
    (cq, channel, qp)
}

type Wait =
    fn(&mut CompletionQueue, &mut CompletionChannel, QueuePair<Rc, Error>) -> Option<VerbsError>;

#[test]
fn every_wait_says_so() {
    let waits: [(&str, Wait); 7] = [
        ("wait", |cq, channel, _| channel.wait(cq).err()),
        ("wait_timeout", |cq, channel, _| channel.wait_timeout(cq, Duration::MAX).err()),
        ("wait_solicited", |cq, channel, _| channel.wait_solicited(cq, None).err()),
        ("wait_any", |cq, channel, _| channel.wait_any(&mut [cq], None).err()),
        ("poll_or_arm", |cq, _, _| cq.poll_or_arm(Notify::Any).err()),
        ("drain", |cq, _, mut qp| qp.drain(cq, |_| ()).err()),
        ("drain_within", |cq, _, mut qp| qp.drain_within(cq, Duration::MAX, |_| ()).err()),
    ];
    for (what, wait) in waits {
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let (mut cq, mut channel, qp) = dead();
            let first = wait(&mut cq, &mut channel, qp);
            // It stays so.
            let again = channel.wait(&mut cq).err();
            let text = |error: Option<VerbsError>| error.map(|error| (error.verb(), error.errno()));
            tell.send((text(first), text(again))).unwrap();
        });
        let said = told.recv_timeout(Duration::from_secs(60));
        let dead = Some(("ibv_poll_cq", Some(libc::EIO)));
        assert_eq!(said, Ok((dead, dead)), "{what}");
    }
}
