//! The C that is not measured: the queue pair and its buffers. `cargo xtask field` compiles what is
//! measured, as the C twins of the benches.

fn main() {
    cc::Build::new()
        .file("src/ground.c")
        .include("../../common/c")
        .flag("-std=gnu11")
        .flag("-Wextra")
        .compile("ground");
    println!("cargo::rustc-link-lib=ibverbs");
    println!("cargo::rerun-if-changed=../../common/c/rts.h");
    println!("cargo::rerun-if-changed=src/ground.c");
    println!("cargo::rerun-if-changed=src/form.h");
}
