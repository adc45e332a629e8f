//! Sets the path of the generated programs: those of `cargo xtask programs`, or none.

use std::env;

fn main() {
    println!("cargo::rerun-if-env-changed=PROVERBS_PROGRAMS");
    let here = env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let programs = env::var("PROVERBS_PROGRAMS").unwrap_or(format!("{here}/src/none.rs"));
    println!("cargo::rerun-if-changed={programs}");
    println!("cargo::rustc-env=PROVERBS_PROGRAMS={programs}");
}
