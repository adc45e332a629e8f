//! A call that needs a descriptor names the limit to raise if the process has none left.
//!
//! The test runs itself in a process with a low limit.
#![cfg(all(not(miri), feature = "cm"))]
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::fs::File;
use std::process::Command;

use proverbs::cm::{CmId, ConnectedPair, EventChannel, Tcp, loopback_pair};
use proverbs::completion::Waker;
use proverbs::{Error, loopback};

const CHILD: &str = "PROVERBS_FEW_DESCRIPTORS";

type Call<'a> = Box<dyn Fn() -> Result<(), Error> + 'a>;

#[test]
fn without_descriptors_the_error_names_the_limit() {
    let Ok(limit) = std::env::var(CHILD) else {
        // More than are open: a test runner may pass any number of them to its children.
        let command = format!(
            "limit=$(($(ls /proc/$$/fd | sort -n | tail -1) + 64)); ulimit -n $limit; \
             {CHILD}=$limit exec \"$0\" --nocapture"
        );
        let limited = Command::new("sh")
            .args(["-c", &command])
            .arg(std::env::current_exe().unwrap())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&limited.stdout);
        let failed = String::from_utf8_lossy(&limited.stderr);
        assert!(limited.status.success() && said.contains("1 passed"), "{said}{failed}");
        return;
    };
    let loopback::Pair { context, .. } = loopback::pair().unwrap();
    let channel = context.create_comp_channel().unwrap();
    let ConnectedPair { fabric, a, b: _b, .. } = loopback_pair().unwrap();
    let events = EventChannel::on(&fabric).unwrap();
    let connection = RefCell::new(Some(a.migrate_to(&events).unwrap()));
    let calls: [(&str, Call<'_>); 8] = [
        ("a waker", Box::new(|| Waker::new().map(drop))),
        ("a completion channel", Box::new(|| context.create_comp_channel().map(drop))),
        ("its descriptor", Box::new(|| channel.readiness_fd().map(drop))),
        ("device events", Box::new(|| context.events().map(drop))),
        ("an event channel", Box::new(|| EventChannel::on(&fabric).map(drop))),
        ("its descriptor", Box::new(|| events.readiness_fd().map(drop))),
        ("an id", Box::new(|| CmId::<Tcp, _>::on(&fabric).map(drop))),
        (
            "an id that becomes synchronous",
            Box::new(|| match connection.take().unwrap().into_synchronous() {
                Ok(_) => Ok(()),
                Err(refused) => {
                    let (back, error) = refused.into_parts();
                    *connection.borrow_mut() = Some(back);
                    Err(error)
                }
            }),
        ),
    ];
    let mut held = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        held.push(file);
    }
    let said: Vec<_> = calls.iter().map(|(what, call)| (what, call().unwrap_err())).collect();
    drop(held);
    for (what, error) in said {
        assert_eq!(error.errno(), Some(libc::EMFILE), "{what}: {error}");
        let words = format!("may have {limit}: raise `ulimit -n`");
        assert!(error.to_string().contains(&words), "{what}: {error}");
    }
    for (what, call) in &calls {
        call().unwrap_or_else(|error| panic!("{what}, with descriptors again: {error}"));
    }
}
