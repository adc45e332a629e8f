//! Marks at tests that some devices cannot pass. A marked test still runs on those devices, in its
//! own process, since a panic in the middle may abort. It must fail there with the reason that the
//! mark gives, so an outdated mark fails the suite.

use std::env;
use std::process::Command;
use std::time::Duration;

/// The devices that cannot pass a test, and how they fail it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// iWARP: the crate rejects the operation, and its error has the rule's words.
    Iwarp,
    /// iWARP deviates, as the rule describes.
    IwarpOtherwise,
    /// siw deviates, as the rule describes. The loopback's iWARP passes.
    Siw,
    /// Devices whose completions do not cover earlier unsignaled sends: the error says so.
    NoRings,
    /// Devices that may access memory after its deregistration: the error says so.
    KeptRegions,
}

/// At the beginning of a test: on these devices it fails, by this rule, if the condition holds. The
/// variants are those of [`On`].
macro_rules! fails_on {
    ($on:ident, $rule:literal) => {
        $crate::support::fails_on!($on, $rule, true)
    };
    ($on:ident, $rule:literal, $is_so:expr) => {{
        fn here() {}
        let name = std::any::type_name_of_val(&here);
        if $is_so && $crate::support::is_known_to_fail(name, $crate::support::On::$on, $rule) {
            return;
        }
    }};
    ($on:ident) => {
        $crate::support::fails_on!($on, "")
    };
}
pub(crate) use fails_on;

/// Tells a child process to run the test itself.
const CHILD: &str = "PROVERBS_MARKED";

/// Whether this process runs a test that must fail, so that it need not wait long.
pub fn must_fail() -> bool {
    env::var_os(CHILD).is_some()
}

fn is_loopback() -> bool {
    env::var_os("PROVERBS_DEVICE").is_none()
}

/// How long to wait for something that a test needs: it only ends a test that would hang.
pub fn patience() -> Duration {
    match (must_fail(), is_loopback()) {
        (true, true) => Duration::from_secs(2),
        (true, false) => Duration::from_secs(10),
        (false, _) => super::long(),
    }
}

impl On {
    fn is_here(self) -> bool {
        let is = |name, value: &str| env::var(name).is_ok_and(|is| is.starts_with(value));
        let is_siw = is("PROVERBS_DEVICE", "siw");
        let is_iwarp = is_siw || is_loopback() && is("PROVERBS_WORLD", "iwarp");
        match self {
            On::Iwarp | On::IwarpOtherwise => is_iwarp,
            On::Siw => is_siw,
            On::NoRings | On::KeptRegions => {
                is_iwarp || is_loopback() && is("PROVERBS_WORLD", "unknown")
            }
        }
    }

    /// The possible messages of the failure. On siw something else may be missing first, such as a
    /// verb.
    fn words(self, rule: &str) -> &'static [&'static str] {
        match (self, rule) {
            _ if On::Siw.is_here() => &[""],
            (On::Iwarp, "R24.2") => &["which has RC alone"],
            (On::Iwarp, "R24.4") => {
                &["immediates nor atomics", "no atomics", "READs into one element"]
            }
            (On::Iwarp, "R24.5") => &["which has no transitions by the program"],
            (On::Iwarp, "R24.6") => &["(R24.6)"],
            (On::Iwarp, "R15.1") => &["no such extended posting"],
            (On::Iwarp, _) => panic!("{rule} has no failure message"),
            (On::IwarpOtherwise, "R24.15") => &["EINVAL: Invalid argument"],
            (On::IwarpOtherwise | On::Siw, _) => &[""],
            (On::NoRings, _) => &["earlier unsignaled sends"],
            (On::KeptRegions, _) => &["after deregistration"],
        }
    }
}

/// Whether the device under test cannot pass the test that contains `here`, as another process has
/// just confirmed.
pub fn is_known_to_fail(here: &str, on: On, rule: &str) -> bool {
    if !on.is_here() || must_fail() {
        return false;
    }
    // The crate's name precedes it, and this closure's follows.
    let name = here.replace("::{{closure}}", "");
    let name = name.split_once("::").expect("a path").1.trim_end_matches("::here");
    let suite = env::current_exe().expect("the suite");
    let child = Command::new("timeout")
        .arg("120")
        .arg(suite)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("cannot run timeout(1) of coreutils");
    let said = [child.stdout, child.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
    let said = said.concat();
    assert!(said.contains("running 1 test"), "there is no test {name}:\n{said}");
    assert!(!child.status.success(), "{name} passes on this device: remove its mark");
    let words = on.words(rule);
    let is_by_the_rule = words.iter().any(|words| said.contains(words));
    assert!(is_by_the_rule, "{name} fails here, but not by {words:?}:\n{said}");
    println!("{name} fails on this device as it should: {on:?} {rule}");
    true
}
