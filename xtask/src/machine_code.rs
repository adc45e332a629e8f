//! `cargo xtask test machine-code`: what the post paths are compiled to.
//!
//! Each function of `benches/overhead/examples/machine_code.rs` may make one indirect call, the
//! provider's, and calls to the crate's cold paths; no panic, no allocation, no atomic
//! read-modify-write and no fence.

use std::fs;

use anyhow::{Context, Result, bail, ensure};

use crate::sh::Run;
use crate::{overhead, paths, setup};

/// The functions, each with the cold paths that it may call (parts of mangled names).
const FUNCTIONS: [&str; 7] = [
    "post_one",
    "post_chain",
    "post_chain_selective",
    "post_inline",
    "post_datagram",
    "post_receives",
    "post_shared_receive",
];

/// Cold paths, by the end of their mangled paths: all that is not straightforward, and a refusal of
/// the device's.
const COLD: [&str; 2] = ["4post4slow4slow", "4post4slow17refused_by_device"];

pub fn check() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("machine code is looked at on x86-64 only");
    }
    setup::ensure(&[setup::Group::Build])?;
    let file = paths::below_target("overhead")?.join("post.s");
    let emit = format!("--emit=asm={}", file.display());
    overhead::build::cargo_measured("rustc", &["--example", "machine_code", "--", &emit])?
        .step("Compiling the post paths")?;
    let asm = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
    let mut failures = Vec::new();
    for name in FUNCTIONS {
        let body =
            function(&asm, name).with_context(|| format!("`{name}` is not in the assembly"))?;
        let report = Report::of(body);
        if report.indirect != 1 {
            failures.push(format!("{name}: {} indirect calls instead of one", report.indirect));
        }
        failures.extend(report.bad.iter().map(|line| format!("{name}: {line}")));
    }
    ensure!(
        failures.is_empty(),
        "the post paths hold what they must not:\n{}",
        failures.join("\n")
    );
    println!(
        "{} post paths: one indirect call, and no panic, allocation or fence",
        FUNCTIONS.len()
    );
    Ok(())
}

#[derive(Default)]
struct Report<'a> {
    indirect: usize,
    bad: Vec<&'a str>,
}

impl<'a> Report<'a> {
    fn of(body: &'a str) -> Self {
        let mut report = Report::default();
        for line in body.lines().map(str::trim) {
            let mnemonic = line.split_whitespace().next().unwrap_or("");
            if mnemonic.starts_with("lock") || mnemonic.ends_with("fence") || mnemonic == "xchgq" {
                report.bad.push(line);
            }
            let is_call = mnemonic.starts_with("call");
            let is_tail_call = mnemonic.starts_with("jmp") && !line.contains(".LBB");
            if !is_call && !is_tail_call {
                continue;
            }
            // A call through the GOT names a symbol; one through a register's memory is indirect.
            if line.contains('*') && !line.contains("GOTPCREL") {
                report.indirect += 1;
            } else if !COLD.iter().any(|path| line.contains(path)) {
                report.bad.push(line);
            }
        }
        report
    }
}

/// The text between a function's label and its end.
fn function<'a>(asm: &'a str, name: &str) -> Option<&'a str> {
    let start = asm.find(&format!("\n{name}:\n"))?;
    let rest = &asm[start..];
    Some(&rest[..rest.find(".Lfunc_end")?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_must_not_be_there() {
        let body = "\tcallq\t*208(%rax)\n\tlock\n\tcallq\t*_ZN4core9panicking5panic@GOTPCREL(%rip)\n\tcallq *_ZN8proverbs4post4slow4slow17hE@GOTPCREL(%rip)\n";
        let report = Report::of(body);
        assert_eq!(report.indirect, 1);
        assert_eq!(report.bad.len(), 2);
    }
}
