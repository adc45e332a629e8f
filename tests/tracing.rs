//! Events of the feature `tracing`: the events of a run on the loopback device match the table of
//! docs/tracing.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use proverbs::loopback::{Fabric, Fault, Pair, Script, pair};
use proverbs::prelude::*;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// An event: target, name, level, and its fields.
#[derive(Clone, Debug, Default)]
struct Seen {
    target: String,
    name: String,
    level: String,
    fields: BTreeMap<String, String>,
    /// All fields of the call site, including those without a value.
    declared: BTreeSet<String>,
}

impl Visit for Seen {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name().to_owned(), format!("{value:?}"));
    }
}

/// Collects events.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Seen>>>);

impl Collector {
    /// The events during `run`, with what it returned.
    fn during<R>(run: impl FnOnce() -> R) -> (R, Vec<Seen>) {
        let collector = Collector::default();
        let result = tracing::subscriber::with_default(collector.clone(), run);
        let seen = std::mem::take(&mut *collector.0.lock().unwrap());
        (result, seen)
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn event(&self, event: &Event<'_>) {
        let meta = event.metadata();
        let mut seen = Seen {
            target: meta.target().to_owned(),
            name: meta.name().to_owned(),
            level: meta.level().to_string(),
            declared: meta.fields().iter().map(|field| field.name().to_owned()).collect(),
            ..Seen::default()
        };
        event.record(&mut seen);
        assert_eq!(seen.fields.remove("message").as_ref(), Some(&seen.name));
        seen.declared.remove("message");
        self.0.lock().unwrap().push(seen);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// The fields of the events with this target and name.
fn of<'s>(all: &'s [Seen], target: &str, name: &str) -> Vec<&'s BTreeMap<String, String>> {
    let is = |seen: &&Seen| seen.target == target && seen.name == name;
    all.iter().filter(is).map(|seen| &seen.fields).collect()
}

/// A queue pair is created, a post is rejected, it fails and ends. The data path without a failure
/// reports nothing.
#[test]
fn the_life_of_a_queue_pair() {
    let (Pair { mut a, b, mut cq, .. }, seen) = Collector::during(|| pair().unwrap());
    let (qp_num, peer) = (a.qp_num().to_string(), b.qp_num().to_string());
    let created = of(&seen, "proverbs::object", "created");
    let numbers: Vec<_> = created.iter().filter_map(|it| it.get("qp_num")).collect();
    assert_eq!(numbers, [&qp_num, &peer]);
    for object in ["ibv_context", "ibv_pd", "ibv_mr", "ibv_cq", "ibv_qp"] {
        assert!(created.iter().any(|it| it["object"] == format!("{object:?}")), "{object}");
    }
    let moved = of(&seen, "proverbs::qp", "transition");
    let ways: Vec<_> = moved.iter().filter(|it| it["qp_num"] == qp_num).collect();
    let ways: Vec<_> = ways.iter().map(|it| format!("{} -> {}", it["from"], it["to"])).collect();
    assert_eq!(ways, ["RESET -> INIT", "INIT -> RTR", "RTR -> RTS"]);

    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(0x1000, 8, 0xbad).write();
    let write = || wr::RdmaWrite::inline(b"8 bytes!", nowhere);
    let ((), seen) = Collector::during(|| {
        for _ in 0..8 {
            a.post_send(write()).unwrap();
        }
    });
    assert!(seen.is_empty(), "{seen:?}");
    let (full, seen) = Collector::during(|| a.post_send(write()).unwrap_err());
    assert!(full.is_full());
    let events = of(&seen, "proverbs::post", "queue full");
    assert_eq!((seen.len(), &events[0]["qp_num"]), (1, &qp_num));
    let (error, seen) = Collector::during(|| {
        a.post_send(wr::RdmaWrite::inline_slice(&[0; 65], nowhere)).unwrap_err()
    });
    let events = of(&seen, "proverbs::post", "refused");
    assert_eq!((seen.len(), &events[0]["reason"]), (1, &error.kind().to_string()));

    // One cause, and seven flushes.
    let (count, seen) = Collector::during(|| {
        let mut count = 0;
        while count < 8 {
            for completion in cq.poll().unwrap() {
                assert!(matches!(completion.outcome(), Outcome::Failed(_)));
                count += 1;
            }
        }
        count
    });
    let failed = of(&seen, "proverbs::completion", "failed");
    assert_eq!((count, seen.len(), &failed[0]["qp_num"]), (8, 1, &qp_num));

    let ((), seen) = Collector::during(|| a.destroy().unwrap());
    let destroyed = of(&seen, "proverbs::object", "destroyed");
    assert_eq!((destroyed.len(), &destroyed[0]["qp_num"]), (1, &qp_num));
    let ((), seen) = Collector::during(|| b.to_error().unwrap().destroy().unwrap());
    let moved = of(&seen, "proverbs::qp", "transition");
    assert_eq!((&moved[0]["qp_num"], moved[0]["to"].as_str()), (&peer, "ERR"));
}

/// A subscriber that panics with each event.
struct Panics(Collector);

impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.0.enabled(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        self.0.event(event);
        std::panic::resume_unwind(Box::new("a subscriber panics"));
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.0.new_span(span)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// Every call does the same with and without a subscriber.
#[test]
fn a_subscriber_that_panics_changes_nothing() {
    let collector = Collector::default();
    tracing::subscriber::with_default(Panics(collector.clone()), || everything().unwrap());
    let created = collector.0.lock().unwrap().iter().filter(|it| it.name == "created").count();
    let destroyed = collector.0.lock().unwrap().iter().filter(|it| it.name == "destroyed").count();
    assert!(created == destroyed && created > 8, "{created} created, {destroyed} destroyed");
}

/// A row of the table: target, name, level, and fields.
type Row = (String, String, String, BTreeSet<String>);

fn rows_of_page() -> BTreeSet<Row> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/tracing.md");
    let page = fs::read_to_string(path).unwrap();
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let text = |cell: &str| cell.trim_matches('`').to_owned();
        let fields = cells[4].split(", ").map(text).collect();
        (text(cells[1]), text(cells[2]), cells[3].to_owned(), fields)
    };
    page.lines().filter(|line| line.starts_with("| `proverbs::")).map(row).collect()
}

/// A run that produces every event of a loopback device.
fn everything() -> Result<(), Box<dyn std::error::Error>> {
    use proverbs::cm::{CmId, Tcp};
    let second = Duration::from_secs(1);
    let Pair { mut a, b: _b, mut cq, .. } = pair()?;
    let nowhere = RemoteSlice::<RemoteWrite>::from_parts(0x1000, 8, 0xbad).write();
    while a.post_send(wr::RdmaWrite::inline(b"8 bytes!", nowhere)).is_ok() {}
    assert!(a.post_send(wr::RdmaWrite::inline_slice(&[0; 65], nowhere)).is_err());
    while cq.poll()?.filter(|completion| completion.status().is_err()).count() == 0 {}

    let fabric = Fabric::new();
    let (here, _there) = (fabric.open_device(), fabric.open_device());
    let id = CmId::<Tcp, _>::on(&fabric)?.bind_addr("10.0.0.1:0".parse()?)?;
    drop(id.resolve_addr("10.0.0.2:7471".parse()?, second)?.resolve_route(second)?);
    let mut cq = here.create_cq::<Buf>(16)?;
    assert!(here.query_port(9).is_err());
    let mut events = here.events()?;
    assert!(fabric.raise(&here, 18), "the GID table changed");
    assert!(events.wait_timeout(second)?.is_some());
    fabric.inject(Script::seeded(0).with(Fault::FailPoll.always()));
    assert!(cq.poll().is_err());
    assert!(cq.poll().is_err(), "one event nevertheless");
    Ok(())
}

/// Each event is in the table with its level and its fields, and each event of the table occurs,
/// except those of real devices.
#[test]
fn the_table_is_complete() {
    let (result, seen) = Collector::during(everything);
    result.unwrap();
    let ours = seen.iter().filter(|seen| seen.target.starts_with("proverbs"));
    let seen: BTreeSet<Row> = ours
        .map(|it| (it.target.clone(), it.name.clone(), it.level.clone(), it.declared.clone()))
        .collect();
    let page = rows_of_page();
    assert!(page.len() >= 15, "{page:?}");
    assert_eq!(seen.difference(&page).collect::<Vec<_>>(), Vec::<&Row>::new(), "not in the table");
    let unseen: Vec<_> = page.difference(&seen).map(|row| row.1.as_str()).collect();
    assert_eq!(unseen, ["fork initialized", "opened", "not destroyed"]);
}
