//! Instructions of each form, without those of the stub.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::build::Twins;
use crate::callgrind;
use crate::paths;
use crate::sh::Cmd;

/// Instructions a call, of one form.
pub struct Count {
    /// `family/row/form`.
    pub label: String,
    pub instructions: f64,
}

/// Counts all forms. A form that posts something else than its twins is an error.
pub fn run(twins: &Twins, forms: &Path, what: &str) -> Result<Vec<Count>> {
    let out = paths::below_target("overhead")?.join("callgrind.out");
    let step = crate::progress::Step::start(format!("Counting instructions, {what}"));
    let mut cmd = callgrind::command(&out)?.arg(forms).arg(&twins.stub);
    for (name, file) in &twins.objects {
        cmd = cmd.arg(format!("{name}={}", file.display()));
    }
    let calls = cmd.read_text()?;
    let text = fs::read_to_string(&out).with_context(|| format!("{}", out.display()))?;
    let costs = callgrind::costs(&text, &twins.stub.display().to_string());
    step.done("Instructions are counted");
    join(&calls, &costs)
}

/// The floor of each row, by `family/row`: the same forms, run instruction by instruction.
pub fn floors(twins: &Twins, forms: &Path) -> Result<HashMap<String, f64>> {
    let mut cmd = Cmd::new(forms).arg("--floor").arg(&twins.stub);
    for (name, file) in &twins.objects {
        cmd = cmd.arg(format!("{name}={}", file.display()));
    }
    let text = cmd.read_text()?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("floor "));
    let floors: HashMap<_, _> = lines
        .map(|line| {
            let (id, count) = line.rsplit_once(' ').context("a floor has a row and a number")?;
            Ok((id.to_owned(), count.parse().with_context(|| format!("`{line}`"))?))
        })
        .collect::<Result<_>>()?;
    if floors.is_empty() {
        bail!("no floor was found");
    }
    Ok(floors)
}

/// Divides the costs by the calls that the forms' own output tells.
fn join(calls: &str, costs: &HashMap<&str, u64>) -> Result<Vec<Count>> {
    let mut all = Vec::new();
    for line in calls.lines().filter_map(|line| line.strip_prefix("count ")) {
        let (label, calls) = line.rsplit_once(' ').context("a count has a label and a number")?;
        let calls: f64 = calls.parse().with_context(|| format!("`{line}`"))?;
        let cost = *costs.get(label).with_context(|| format!("callgrind has no `{label}`"))?;
        all.push(Count { label: label.to_owned(), instructions: cost as f64 / calls });
    }
    if all.is_empty() {
        bail!("nothing was counted");
    }
    Ok(all)
}
