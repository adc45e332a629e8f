//! `cargo test --example kv`.

use std::thread;

use proverbs::loopback::Fabric;
use proverbs::memory::MapOptions;

use super::connect::both_ends;
use super::table::{BUCKET, MAX_KEY, MAX_VALUE, Request, SLOT, Slot};

type Serving = thread::JoinHandle<Result<u64, String>>;

fn start(buckets: usize) -> (Serving, super::client::Client) {
    let context = Fabric::new().open_device();
    let (mut server, client) =
        both_ends(&context, vec![0u8; buckets * BUCKET]).expect("the loopback device has room");
    let serving = thread::spawn(move || server.serve().map_err(|error| error.to_string()));
    (serving, client)
}

#[test]
fn what_was_put_is_got_until_it_is_removed() -> super::Result<()> {
    let (serving, mut client) = start(64);
    let key = |n: u32| format!("key {n}");
    for n in 0..100 {
        client.put(&key(n), &n.to_le_bytes())?;
    }
    for n in 0..100 {
        assert_eq!(client.get(&key(n))?, Some(n.to_le_bytes().to_vec()), "{}", key(n));
    }
    assert_eq!(client.reads, 100, "one READ each");
    client.put(&key(7), b"again")?;
    assert_eq!(client.get(&key(7))?.as_deref(), Some(&b"again"[..]));
    client.remove(&key(7))?;
    assert_eq!(client.get(&key(7))?, None);
    assert_eq!(client.get("never put")?, None);
    client.stop()?;
    // The server received the changes and the stop request, and none of the READs.
    assert_eq!(serving.join().expect("it does not panic")?, 100 + 1 + 1 + 1);
    Ok(())
}

#[test]
fn what_cannot_be_is_refused_and_changes_nothing() -> super::Result<()> {
    let (serving, mut client) = start(1);
    let too_long = "k".repeat(MAX_KEY + 1);
    assert!(client.put(&too_long, b"").is_err());
    assert!(client.put("k", &[0; MAX_VALUE + 1]).is_err());
    let why = client.put("", b"v").expect_err("no key").to_string();
    assert_eq!(why, "a key has at least one byte");
    let why = client.remove("k").expect_err("not there").to_string();
    assert_eq!(why, "there is no such key");
    for key in ["a", "b", "c", "d"] {
        client.put(key, key.as_bytes())?;
    }
    let why = client.put("e", b"e").expect_err("four slots").to_string();
    assert_eq!(why, "the bucket of this key is full");
    client.remove("b")?;
    client.put("e", b"e")?;
    for (key, there) in [("a", true), ("b", false), ("c", true), ("d", true), ("e", true)] {
        assert_eq!(client.get(key)?.is_some(), there, "{key}");
    }
    client.stop()?;
    serving.join().expect("it does not panic")?;
    Ok(())
}

#[test]
fn a_reader_never_sees_half_a_change() -> super::Result<()> {
    const LAST: u8 = 200;
    let context = Fabric::new().open_device();
    let (mut server, mut client) = both_ends(&context, vec![0u8; BUCKET])?;
    server.put(b"k".to_vec(), vec![0; MAX_VALUE])?;
    let writing = thread::spawn(move || {
        for n in 1..=LAST {
            let put = server.put(b"k".to_vec(), vec![n; MAX_VALUE]);
            put.map_err(|error| error.to_string())?;
            thread::yield_now();
        }
        Ok::<_, String>(server)
    });
    let mut seen = 0;
    while seen < LAST {
        let value = client.get("k")?.expect("it is always there");
        assert!(value.iter().all(|&byte| byte == value[0]), "torn: {value:?}");
        assert!(value[0] >= seen, "{} after {seen}", value[0]);
        seen = value[0];
    }
    drop(writing.join().expect("it does not panic")?);
    Ok(())
}

#[test]
fn a_torn_slot_is_noticed() -> super::Result<()> {
    let slot = |version, byte| Slot { version, key: b"k".to_vec(), value: vec![byte; 32] };
    let (old, new) = (slot(1, 1).to_bytes()?, slot(2, 2).to_bytes()?);
    assert_eq!(Slot::from_bytes(&old), Some(slot(1, 1)));
    assert_eq!(Slot::from_bytes(&[0; SLOT]).map(|slot| slot.key.len()), Some(0));
    for cut in 1..SLOT {
        let torn: Vec<u8> = [&new[..cut], &old[cut..]].concat();
        let torn: [u8; SLOT] = torn.try_into().expect("a slot");
        if torn != old && torn != new {
            assert_eq!(Slot::from_bytes(&torn), None, "cut at {cut}");
        }
    }
    Ok(())
}

#[test]
fn requests_travel() {
    let (key, value) = (b"k".to_vec(), b"v".to_vec());
    for request in
        [Request::Put { key: key.clone(), value }, Request::Remove { key }, Request::Stop]
    {
        assert_eq!(Request::from_bytes(&request.to_bytes()), Some(request));
    }
    for wrong in [&b""[..], b"p", b"p\x05ab", b"x\0"] {
        assert_eq!(Request::from_bytes(wrong), None, "{wrong:?}");
    }
}

#[test]
fn a_table_in_a_file_is_there_again() -> super::Result<()> {
    let path = std::env::temp_dir().join(format!("proverbs-kv-{}", std::process::id()));
    let mut options = std::fs::File::options();
    let file = options.read(true).write(true).create(true).truncate(true).open(&path)?;
    file.set_len(super::LEN as u64)?;
    for run in 0..3u8 {
        let memory = MapOptions::new().file(&file, 0..super::LEN as u64)?;
        let context = Fabric::new().open_device();
        let (mut server, mut client) = both_ends(&context, memory)?;
        let before = run.checked_sub(1).map(|run| vec![run]);
        let serving = thread::spawn(move || server.serve().map_err(|error| error.to_string()));
        assert_eq!(client.get("run")?, before);
        client.put("run", &[run])?;
        client.stop()?;
        serving.join().expect("it does not panic")?;
    }
    std::fs::remove_file(path)?;
    Ok(())
}
