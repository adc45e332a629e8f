//! `cargo test --example log`.

use proverbs::completion::Direction;
use proverbs::loopback::{Fabric, Fault, Personality, Script};

use super::follower::{Follower, blank};
use super::leader::Leader;
use super::{FOLLOWERS, Result, join};

fn text(n: u64) -> Vec<u8> {
    format!("entry {n}").into_bytes()
}

/// A leader and its followers, each on its own device.
fn start(fabric: &Fabric) -> Result<(Leader, Vec<Follower>)> {
    let mut leader = Leader::new(fabric.open_device(), Some(1))?;
    let mut followers = Vec::new();
    for place in 0..FOLLOWERS {
        followers.push(join(&mut leader, place, fabric.open_device(), blank())?);
    }
    Ok((leader, followers))
}

fn append(leader: &mut Leader, entries: std::ops::RangeInclusive<u64>) -> Result<()> {
    for n in entries {
        leader.append(&text(n))?;
    }
    Ok(())
}

/// Checks that the log has exactly `last` entries, all committed.
fn has_all(follower: &Follower, last: u64) -> Result<()> {
    assert_eq!(follower.committed()?, last);
    for n in 1..=last {
        assert_eq!(follower.get(n)?, Some(text(n)), "entry {n}");
    }
    assert_eq!(follower.get(last + 1)?, None);
    Ok(())
}

#[test]
fn every_follower_has_every_entry() -> Result<()> {
    for personality in [Personality::Plain, Personality::Rxe, Personality::Mlx5] {
        let (mut leader, followers) = start(&Fabric::with(personality))?;
        append(&mut leader, 1..=500)?;
        leader.commit()?;
        assert_eq!(leader.committed(), 500);
        leader.settle()?;
        followers.iter().try_for_each(|follower| has_all(follower, 500))?;
        assert_eq!(followers[0].reads, 0, "there was nothing to catch up with");
    }
    Ok(())
}

#[test]
fn a_follower_that_died_reads_what_it_missed() -> Result<()> {
    let fabric = Fabric::new();
    let (mut leader, mut followers) = start(&fabric)?;
    append(&mut leader, 1..=100)?;
    leader.commit()?;
    leader.settle()?;
    let memory = followers.remove(1).die()?;
    append(&mut leader, 101..=420)?;
    leader.commit()?;
    assert!(!leader.is_alive(1), "nobody acknowledged the WRITEs");
    assert_eq!(leader.committed(), 420, "two followers and the leader are enough");

    followers.insert(1, join(&mut leader, 1, fabric.open_device(), memory)?);
    assert_eq!(followers[1].reads, 320 / 16, "none of the earlier entries");
    append(&mut leader, 421..=500)?;
    leader.commit()?;
    leader.settle()?;
    followers.iter().try_for_each(|follower| has_all(follower, 500))
}

#[test]
fn without_a_majority_nothing_is_committed() -> Result<()> {
    let fabric = Fabric::new();
    let (mut leader, mut followers) = start(&fabric)?;
    append(&mut leader, 1..=10)?;
    leader.commit()?;
    leader.settle()?;
    let memory = followers.remove(2).die()?;
    followers.remove(1).die()?;
    append(&mut leader, 11..=20)?;
    let why = leader.commit().expect_err("two of four").to_string();
    assert_eq!(why, "1 followers: 10 of 20 entries are committed");
    assert_eq!(followers[0].committed()?, 10);
    assert_eq!(followers[0].get(20)?, Some(text(20)), "it has arrived, but is not committed");

    // One follower is back. Its entries count when it has caught up.
    followers.push(join(&mut leader, 2, fabric.open_device(), memory)?);
    leader.commit()?;
    leader.settle()?;
    followers.iter().try_for_each(|follower| has_all(follower, 20))
}

/// Brings back dropped followers with their memory, and returns their number. If a READ is not
/// answered either, tries again.
fn revive(fabric: &Fabric, leader: &mut Leader, followers: &mut Vec<Follower>) -> Result<u32> {
    let mut deaths = 0;
    for place in 0..FOLLOWERS {
        if leader.is_alive(place) {
            continue;
        }
        deaths += 1;
        let memory = followers.remove(place).die()?;
        let mut again = || join(leader, place, fabric.open_device(), memory.clone()).ok();
        let back = (0..10).find_map(|_| again()).ok_or("no reply to ten attempts")?;
        followers.insert(place, back);
    }
    Ok(deaths)
}

/// Messages are lost and late, posts are rejected, and sometimes there is no reply. A dropped
/// follower comes back with its memory. In the end all logs are equal, on every device.
#[test]
fn faults_from_a_seed_change_nothing() -> Result<()> {
    let mut deaths = 0;
    for seed in 0..20 {
        println!("seed {seed}");
        let fabric = Fabric::with(Personality::worst(seed));
        let (mut leader, mut followers) = start(&fabric)?;
        fabric.inject(
            Script::seeded(seed)
                .with(Fault::Lose.one_in(20))
                .with(Fault::Delay { runs: 3 }.one_in(20))
                .with(Fault::FlushLate { runs: 5 }.one_in(2))
                .with(Fault::NoAnswer.one_in(150))
                .with(Fault::Refuse { errno: 12 }.one_in(40).posting(Direction::Send)),
        );
        for n in 1..=400 {
            leader.append(&text(n))?;
            deaths += revive(&fabric, &mut leader, &mut followers)?;
        }
        fabric.inject(Script::default());
        // Operations in progress may still fail.
        while leader.commit().and_then(|()| leader.settle()).is_err()
            || (0..FOLLOWERS).any(|place| !leader.is_alive(place))
        {
            deaths += revive(&fabric, &mut leader, &mut followers)?;
        }
        followers.iter().try_for_each(|follower| has_all(follower, 400))?;
    }
    assert!(deaths > 20, "{deaths} followers died");
    Ok(())
}
