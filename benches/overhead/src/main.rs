//! Rust and C through the same stub provider.
//!
//! `proverbs-overhead STUB NAME=TWINS...` calls every form of every row, compares the work requests
//! that the provider received, and under callgrind dumps the cost of each form. `--only=TEXT,...`
//! selects the rows whose `family/row` begins with one of the texts. `--growth` counts the
//! operations of `growth` instead, and `--time` measures time. `cargo xtask overhead` and `cargo xtask growth` build the shared
//! objects, run this, and print the tables.

mod best;
mod family;
mod form;
mod growth;
mod life;
mod own;
mod pieces;
mod posts;
mod raw;
mod run;
mod safe;
mod selective;
mod stub;
mod twin;
mod typed;
mod wake;
mod world;

use std::process::exit;

/// The C types, named once.
use proverbs_sys::bindings as c;
use stub::{Library, Stub};

fn main() {
    let mut args: Vec<_> = std::env::args().skip(1).collect();
    let only = args.first().and_then(|arg| arg.strip_prefix("--only=")).map(str::to_owned);
    args.drain(..only.is_some() as usize);
    let only = only.unwrap_or_default();
    let mut has = |option: &str| {
        let has = args.first().is_some_and(|arg| arg == option);
        args.drain(..has as usize);
        has
    };
    let (is_growth, is_time) = (has("--growth"), has("--time"));
    let counted = prepared(args).and_then(|(stub, libraries)| {
        if is_growth {
            growth::all(&stub);
            return Ok(());
        }
        if is_time {
            return run::time(&stub, &libraries, &only);
        }
        run::all(&stub, &libraries, &only)
    });
    match counted {
        // Exits without destructors: the objects belong to a device whose data path the stub has
        // replaced.
        Ok(()) => exit(0),
        Err(error) => {
            eprintln!("error: {error}");
            exit(1)
        }
    }
}

fn prepared(args: Vec<String>) -> Result<(Stub, Vec<Library>), String> {
    const USAGE: &str = "usage: proverbs-overhead [--only=TEXT,...] STUB NAME=TWINS...";
    let mut args = args.into_iter();
    let stub = Stub::load(&args.next().ok_or(USAGE)?)?;
    let open = |arg: String| {
        let (name, path) = arg.split_once('=').ok_or(USAGE)?;
        Library::open(name, path)
    };
    let libraries = args.map(open).collect::<Result<_, _>>()?;
    Ok((stub, libraries))
}
