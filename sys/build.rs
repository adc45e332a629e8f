//! Rejects targets that the crate does not support, before it is compiled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let of = |name: &str| std::env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let (os, width) = (of("OS"), of("POINTER_WIDTH"));
    if os != "linux" || width != "64" {
        println!("cargo::error=proverbs requires 64-bit Linux; this target is {width}-bit {os}");
    }
}
