//! The C of this comparison, as the benches build theirs: -O2, and nothing that hardens or
//! instruments.

fn main() {
    let mut build = cc::Build::new();
    build.file("src/form.c").opt_level(2).debug(false).force_frame_pointer(false);
    for flag in ["-std=gnu11", "-Wextra", "-fno-stack-protector", "-fcf-protection=none"] {
        build.flag(flag);
    }
    build.flag("-mstringop-strategy=unrolled_loop").compile("form");
    println!("cargo::rustc-link-lib=ibverbs");
    println!("cargo::rerun-if-changed=src/form.c");
}
