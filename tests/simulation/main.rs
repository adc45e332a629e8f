//! Random programs on the loopback device and its faults, compared with a model.
//!
//! After every step the model checks: each buffer is in one place, completions come in order, bytes
//! are right, credits are exact. Programs are drawn from a seed; a failing one is shortened and
//! printed, with the command that runs it again.
#![forbid(unsafe_code)]

mod books;
mod describe;
mod entries;
mod kinds;
mod polls;
mod posts;
mod program;
mod run;
mod shrink;
#[allow(dead_code, unused_imports, unused_macros)] // Shared with the conformance suite.
#[path = "../conformance/support/mod.rs"]
mod support;
mod transports;
mod turns;
mod wire;
mod world;

use std::process::ExitCode;
use std::time::Instant;

use bpaf::Bpaf;

/// Steps of one world.
const STEPS: usize = 400;

/// Runs random programs on the loopback device against a model.
#[derive(Bpaf)]
#[bpaf(options)]
struct Options {
    /// The total number of steps; rounded up to whole worlds.
    #[bpaf(long, argument("STEPS"), fallback(40_000), display_fallback)]
    steps: u64,
    /// The seed of the worlds.
    #[bpaf(long, argument("SEED"), fallback(1), display_fallback)]
    seed: u64,
    /// Run only this world, which a failure names.
    #[bpaf(long, argument("WORLD"))]
    world: Option<u64>,
    /// Arguments that cargo gives to every test.
    #[bpaf(positional("REST"), many, hide)]
    _rest: Vec<String>,
}

fn main() -> ExitCode {
    let options = options().run();
    let started = Instant::now();
    let mut total = run::Figures::default();
    let mut dice = program::Dice::new(options.seed);
    std::panic::set_hook(Box::new(shrink::note_panic));
    loop {
        let world = options.world.unwrap_or_else(|| dice.seed());
        let (config, steps) = run::draw(world, STEPS);
        match run::run(&config, &steps) {
            Ok(figures) => total.add(&figures),
            Err(why) => {
                shrink::report(world, config, steps, &why);
                return ExitCode::FAILURE;
            }
        }
        if options.world.is_some() || total.tally.steps >= options.steps {
            break;
        }
    }
    println!("{total}");
    let (steps, seconds) = (total.tally.steps, started.elapsed().as_secs_f64());
    println!("{steps} steps, none wrong: {seconds:.1} s, seed {}", options.seed);
    ExitCode::SUCCESS
}
