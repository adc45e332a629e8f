//! The C that is compared with, built as the benches build theirs: -O2, and nothing that hardens or
//! instruments.

fn main() {
    let mut build = cc::Build::new();
    build
        .file("src/index.c")
        .include("../common/c")
        .opt_level(2)
        .debug(false)
        .force_frame_pointer(false);
    for flag in ["-std=gnu11", "-Wextra", "-fno-stack-protector", "-fcf-protection=none"] {
        build.flag(flag);
    }
    build.compile("index");
    println!("cargo::rustc-link-lib=ibverbs");
    println!("cargo::rerun-if-changed=../common/c/rts.h");
    println!("cargo::rerun-if-changed=src/index.c");
}
