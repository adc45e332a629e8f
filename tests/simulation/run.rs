//! One world from its seed to its end, and the figures of many.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use proverbs::loopback::Injected;
use proverbs::{loopback, prelude::*};

use crate::books::{Check, Place, hold};
use crate::program::{Config, Dice, Make, Step, step};
use crate::wire::*;
use crate::world::{Tally, World};

/// The totals of all worlds.
#[derive(Clone, Copy, Default)]
pub struct Figures {
    pub tally: Tally,
    pub worlds: u64,
    pub injected: [u64; 17],
}

impl Figures {
    pub fn add(&mut self, other: &Figures) {
        let (a, b) = (&mut self.tally, &other.tally);
        a.steps += b.steps;
        a.completions += b.completions;
        a.bytes += b.bytes;
        a.lost_unreliable += b.lost_unreliable;
        a.reclaimed += b.reclaimed;
        a.refused += b.refused;
        a.short += b.short;
        a.forgotten += b.forgotten;
        self.worlds += other.worlds;
        for (sum, one) in self.injected.iter_mut().zip(other.injected) {
            *sum += one;
        }
    }

    fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = Injected::default().by_kind();
        names.into_iter().zip(self.injected).map(|((name, _), n)| (name, n))
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = &self.tally;
        writeln!(f, "{} steps in {} worlds, {} completions", t.steps, self.worlds, t.completions)?;
        writeln!(
            f,
            "{} bytes moved, {} lost on UC and UD; a loss on RC ends the run",
            t.bytes, t.lost_unreliable
        )?;
        writeln!(f, "{} posts refused, {} entries reclaimed", t.refused, t.reclaimed)?;
        writeln!(f, "{} receives too short, {} queue pairs forgotten", t.short, t.forgotten)?;
        for (name, n) in self.faults() {
            writeln!(f, "{n:>9} x {name}")?;
        }
        Ok(())
    }
}

/// The world and the program of a seed.
pub fn draw(seed: u64, steps: usize) -> (Config, Vec<Step>) {
    let mut dice = Dice::new(seed);
    let config = Config::draw(&mut dice);
    (config, (0..steps).map(|_| step(&mut dice)).collect())
}

/// Runs a program. Returns the failure and its step, if there was one.
pub fn run(config: &Config, steps: &[Step]) -> Result<Figures, String> {
    match config.make {
        Make::RcAll => catch::<Rc, AllOwn>(config, steps),
        Make::RcSelective => catch::<Rc, SelectiveOwn>(config, steps),
        Make::RcAllShared => catch::<Rc, AllShared>(config, steps),
        Make::RcSelectiveShared => catch::<Rc, SelectiveShared>(config, steps),
        Make::UcAll => catch::<Uc, AllOwn>(config, steps),
        Make::UcSelective => catch::<Uc, SelectiveOwn>(config, steps),
        Make::UdAll => catch::<Ud, AllOwn>(config, steps),
        Make::UdSelective => catch::<Ud, SelectiveOwn>(config, steps),
        Make::UdAllShared => catch::<Ud, AllShared>(config, steps),
        Make::UdSelectiveShared => catch::<Ud, SelectiveShared>(config, steps),
    }
}

fn catch<T: Wire<P>, P: Kind>(config: &Config, steps: &[Step]) -> Result<Figures, String> {
    let run = || whole::<T, P>(config, steps);
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err(crate::shrink::noted_panic()))
}

fn whole<T: Wire<P>, P: Kind>(config: &Config, steps: &[Step]) -> Result<Figures, String> {
    let mut world = World::<T, P>::new(config);
    for (i, step) in steps.iter().enumerate() {
        let done = world.step(step);
        if let Err(why) = done {
            // An inconsistent world would only fail again.
            std::mem::forget(world);
            return Err(format!("step {i}: {why}"));
        }
        if world.over {
            break;
        }
    }
    let injected = world.injected().by_kind().map(|(_, n)| n);
    let tally = world.tally;
    let over = world.over;
    if over { end_rudely(world) } else { end(world, config.script_seed) }?;
    Ok(Figures { tally, worlds: 1, injected })
}

/// Every buffer returns, by completions or by cleanup.
fn end<T: Wire<P>, P: Kind>(mut world: World<T, P>, seed: u64) -> Check {
    world.fabric.inject(loopback::Script::default());
    let politely = seed % 2 == 0;
    for slot in 0..world.qps.len() {
        if seed % 3 == 0 {
            world.fail(slot);
            world.drain(slot)?;
        }
        world.destroy(slot, politely)?;
        world.settle_if_bufferless()?;
    }
    world.settle()?;
    for at in 0..world.cqs.len() {
        world.reclaim(at)?;
    }
    world.check()?;
    // Receives that are left in the shared receive queue return when it is gone, which requires
    // that no queue pair is left.
    world.srq = AnySrq::None;
    let leaked = world.lives.values().any(|life| life.forgotten);
    if !leaked {
        world.srq_books_on.clear();
    }
    world.settle()?;
    let must = if leaked { 0 } else { world.srq_posted.len() };
    let mut got = 0;
    for cq in &mut world.cqs {
        got += world.pool.reclaim(cq);
    }
    hold!(got == 0, "{must} receives were orphaned in the shared queue, {got} did not return");
    let to = if leaked { Place::Forgotten } else { Place::Home };
    for wr in std::mem::take(&mut world.srq_posted) {
        for buffer in wr.buffers {
            world.places.go(buffer, Place::Receives(0), to)?;
        }
    }
    let forgotten = world.lives.iter().filter(|(_, life)| life.forgotten);
    let with_them = forgotten.flat_map(|(&id, life)| life.recvs.iter().map(move |wr| (id, wr)));
    for (id, wr) in with_them {
        for &buffer in &wr.buffers {
            world.places.go(buffer, Place::Receives(id), Place::Forgotten)?;
        }
    }
    world.step(&Step::LetGo)?;
    let forgotten = world.places.count(Place::Forgotten);
    let (home, all) = (world.pool.available(), world.pool.count());
    hold!(home + forgotten == all, "{home} of {all} buffers are free, {forgotten} were forgotten");
    if !leaked && !world.places.any_forgotten() {
        let World { cqs, channel, regions, open, pool, pd, dev, .. } = world;
        pool.destroy().map_err(|refused| refused.error.to_string())?;
        drop((regions, open));
        for cq in cqs {
            cq.destroy().map_err(|refused| refused.error.to_string())?;
        }
        let destroyed = channel.map(CompletionChannel::destroy);
        destroyed.transpose().map_err(|refused| refused.error.to_string())?;
        pd.destroy().map_err(|refused| refused.error.to_string())?;
        dev.ctx.destroy().map_err(|refused| refused.error.to_string())?;
    }
    Ok(())
}

/// After a completion queue broke: everything is dropped, and no buffer is in two places.
fn end_rudely<T: Wire<P>, P: Kind>(world: World<T, P>) -> Check {
    let World { held, qps, srq, cqs, pool, .. } = world;
    let count = held.len();
    drop((qps, srq));
    drop(cqs);
    let (home, all) = (pool.available(), pool.count());
    hold!(home + count <= all, "{home} buffers are free and {count} here, of {all}");
    drop(held);
    hold!(pool.available() == home + count, "a buffer was dropped and did not return");
    Ok(())
}
