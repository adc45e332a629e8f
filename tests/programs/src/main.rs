//! Runs the generated programs: `cargo xtask programs` writes them, compiles them and calls this.
//!
//! Arguments: the programs to run and the turns of each, as `N:FROM-TO`, and the seconds that a
//! turn may take, as `60s`. Each turn prints `begin N:T` and `end N:T`, or `fail N:T: why`, which
//! ends its program.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use proverbs_programs::{Watch, run};

#[allow(warnings, clippy::all)]
mod generated {
    use proverbs::bounded::*;
    use proverbs::completion::*;
    use proverbs::device::*;
    use proverbs::ext::on_demand::*;
    use proverbs::ext::path_migration::*;
    use proverbs::ext::persistence::*;
    use proverbs::ext::windows::*;
    use proverbs::loopback::*;
    use proverbs::memory::*;
    use proverbs::post::*;
    use proverbs::prelude::*;
    use proverbs::qp::*;
    use proverbs::raw::AsRaw;
    use proverbs::srq::*;
    use proverbs::state::*;
    use proverbs::{endpoint, rules};

    use proverbs_programs::{World, *};

    include!(env!("PROVERBS_PROGRAMS"));
}

/// `17:0-40`
fn job(text: &str) -> Option<(u64, std::ops::Range<u64>)> {
    let (number, turns) = text.split_once(':')?;
    let (from, to) = turns.split_once('-')?;
    Some((number.parse().ok()?, from.parse().ok()?..to.parse().ok()?))
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let seconds = args.iter().find_map(|arg| arg.strip_suffix('s')?.parse().ok());
    let mut failed = false;
    let watch = Watch::start(seconds.unwrap_or(60));
    for (number, turns) in args.iter().filter_map(|arg| job(arg)) {
        let Some(program) = generated::PROGRAMS.iter().find(|it| it.number == number) else {
            continue;
        };
        for turn in turns {
            println!("begin {number}:{turn}");
            watch.begin(number, turn);
            match run(program, turn) {
                None => println!("end {number}:{turn}"),
                Some(why) => {
                    failed = true;
                    println!("fail {number}:{turn}: {}", why.replace('\n', " "));
                    break;
                }
            }
        }
    }
    ExitCode::from(failed as u8)
}
