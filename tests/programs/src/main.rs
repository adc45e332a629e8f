//! Runs the generated programs: `cargo xtask programs` writes them, compiles them and calls this.
//!
//! Arguments: the numbers of the programs to run; none: all. Each says `begin N` and `end N`, or `fail N: why`.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use proverbs_programs::{Watch, run};

#[allow(warnings, clippy::all)]
mod generated {
    use proverbs::{loopback::*, *};

    use proverbs_programs::{World, *};

    include!(env!("PROVERBS_PROGRAMS"));
}

fn main() -> ExitCode {
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let mut failed = false;
    let watch = Watch::start();
    for program in generated::PROGRAMS {
        if !asked.is_empty() && !asked.contains(&program.number) {
            continue;
        }
        println!("begin {}", program.number);
        watch.begin(program.number);
        match run(program) {
            None => println!("end {}", program.number),
            Some(why) => {
                failed = true;
                println!("fail {}: {}", program.number, why.replace('\n', " "));
            }
        }
    }
    ExitCode::from(failed as u8)
}
