//! `cargo xtask machine-code`: what the post paths are compiled to.
//!
//! Each function of `benches/machine_code.rs` may make one indirect call, the provider's, and calls to the
//! crate's cold paths; no panic, no allocation, no atomic read-modify-write and no fence.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::sh::Cmd;
use crate::{Outcome, paths, setup};

#[derive(clap::Args)]
pub struct Args {}

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

/// Cold paths, by the end of their mangled paths: all that is not straightforward, a refusal of the device's, and a list
/// that goes beyond the end of a ring.
const COLD: [(&str, &str); 7] = [
    ("2qp9send_slow4slow", "slow"),
    ("2qp4recv4slow", "slow"),
    ("3srq4post4slow", "slow"),
    ("2qp9send_slow11send_failed", "send_failed"),
    ("2qp4recv11recv_failed", "recv_failed"),
    ("3srq4post6failed", "failed"),
    ("9in_flight4ring4wrap", "wrap"),
];

pub fn main(_: Args) -> Outcome {
    setup::ensure(&[setup::Group::Build])?;
    check()?;
    Ok(ExitCode::SUCCESS)
}

pub fn check() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        bail!("machine code is looked at on x86-64 only");
    }
    let target = paths::below_target("machine-code")?;
    let libclang = setup::libclang()?;
    let mut cmd = Cmd::new("cargo")
        .args(["rustc", "--release", "--bench", "machine_code", "--target-dir"])
        .arg(&target)
        .args(["--", "--emit", "asm", "-C", "codegen-units=1"])
        .current_dir(paths::workspace());
    for (name, value) in libclang.env() {
        cmd = cmd.env(name, value);
    }
    cmd.run("Compiling the post paths")?;
    let asm = newest_asm(&target.join("release/deps"))?;
    let mut failures = Vec::new();
    for name in FUNCTIONS {
        let body =
            function(&asm, name).with_context(|| format!("`{name}` is not in the assembly"))?;
        let report = Report::of(body);
        println!(
            "{name:<22} {:>3} instructions in all, {} indirect call, cold calls: {}",
            report.instructions,
            report.indirect,
            report.cold.iter().copied().collect::<Vec<_>>().join(", ")
        );
        if report.indirect != 1 {
            failures.push(format!("{name}: {} indirect calls instead of one", report.indirect));
        }
        failures.extend(report.bad.iter().map(|line| format!("{name}: {line}")));
    }
    if failures.is_empty() {
        return Ok(());
    }
    bail!("the post paths hold what they must not:\n{}", failures.join("\n"))
}

#[derive(Default)]
struct Report<'a> {
    instructions: usize,
    indirect: usize,
    cold: BTreeSet<&'static str>,
    bad: Vec<&'a str>,
}

impl<'a> Report<'a> {
    fn of(body: &'a str) -> Self {
        let mut report = Report::default();
        for line in body.lines().map(str::trim) {
            let is_instruction = line.starts_with(|c: char| c.is_ascii_lowercase());
            report.instructions += usize::from(is_instruction);
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
            } else if let Some((_, name)) = COLD.iter().find(|(path, _)| line.contains(path)) {
                report.cold.insert(name);
            } else {
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

fn newest_asm(dir: &Path) -> Result<String> {
    let entries = fs::read_dir(dir).with_context(|| format!("{}", dir.display()))?;
    let newest = entries
        .filter_map(|entry| entry.ok())
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("machine_code-") && name.ends_with(".s")
        })
        .max_by_key(|entry| entry.metadata().and_then(|meta| meta.modified()).ok());
    let path = newest.context("rustc wrote no assembly")?.path();
    fs::read_to_string(&path).with_context(|| format!("{}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sees_what_must_not_be_there() {
        let body = "\tcallq\t*208(%rax)\n\tlock\n\tcallq\t*_ZN4core9panicking5panic@GOTPCREL(%rip)\n\tcallq *_ZN8proverbs2qp9send_slow4slow17hE@GOTPCREL(%rip)\n";
        let report = Report::of(body);
        assert_eq!(report.indirect, 1);
        assert_eq!(report.bad.len(), 2);
        assert_eq!(report.cold.len(), 1);
    }
}
