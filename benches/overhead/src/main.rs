//! Rust and C through the same stub provider.
//!
//! `proverbs-overhead STUB NAME=TWINS...` calls every form of every row, compares what the provider was
//! given, and under callgrind dumps the cost of each. `cargo xtask overhead` builds the shared objects,
//! runs this, and makes the table.

mod family;
mod form;
mod raw;
mod run;
mod safe;
mod selective;
mod stub;
#[cfg(feature = "time")]
mod time;
mod twin;
mod typed;
mod world;

use std::process::exit;

use stub::{Library, Stub};

fn main() {
    let result = prepared().and_then(|(stub, libraries)| all(&stub, &libraries));
    match result {
        // Not by return: the objects belong to a device whose data path is the stub's.
        Ok(()) => exit(0),
        Err(error) => {
            eprintln!("error: {error}");
            exit(1)
        }
    }
}

/// With the feature `time`, and somewhere to write to, criterion takes the place of the counts.
fn all(stub: &Stub, libraries: &[Library]) -> Result<(), String> {
    #[cfg(feature = "time")]
    if std::env::var_os("CRITERION_HOME").is_some() {
        return time::all(stub, libraries);
    }
    run::all(stub, libraries)
}

fn prepared() -> Result<(Stub, Vec<Library>), String> {
    const USAGE: &str = "usage: proverbs-overhead STUB NAME=TWINS...";
    let mut args = std::env::args().skip(1);
    let stub = Stub::load(&args.next().ok_or(USAGE)?)?;
    let open = |arg: String| {
        let (name, path) = arg.split_once('=').ok_or(USAGE)?;
        Library::open(name, path)
    };
    let libraries = args.map(open).collect::<Result<_, _>>()?;
    Ok((stub, libraries))
}
