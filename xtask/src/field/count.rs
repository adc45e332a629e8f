//! A program under callgrind: its forms, what they hold, what they cost.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::build::Stub;
use super::results::{Cell, Form};
use crate::callgrind;
use crate::paths;
use crate::progress::Step;

/// Runs the program with our stub as its libibverbs.
pub fn run(stub: &Stub, program: &Path, peer: &str) -> Result<Vec<Form>> {
    let out = paths::below_target("field")?.join("callgrind.out");
    let step = Step::start(format!("Counting instructions of {peer}"));
    let said = stub.for_command(callgrind::command(&out)?.arg(program))?.read_text()?;
    let text = fs::read_to_string(&out).with_context(|| format!("{}", out.display()))?;
    let costs = callgrind::costs(&text, &stub.directory());
    step.done(&format!("{peer} is counted"));
    parse(&said, &costs)
}

/// Joins what the program said with what callgrind counted.
fn parse(said: &str, costs: &HashMap<&str, u64>) -> Result<Vec<Form>> {
    let mut forms: Vec<Form> = Vec::new();
    let mut allocations: HashMap<&str, f64> = HashMap::new();
    for line in said.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "form" {
            let (krate, name) = rest.split_once('/').context("a form is CRATE/NAME")?;
            forms.push(Form::new(krate, name));
            continue;
        }
        if word == "allocations" {
            // Of all counted calls; the stub says so at the dump, before the program does.
            let (label, count) = rest.split_once(' ').context("allocations LABEL COUNT")?;
            allocations.insert(label, count.parse()?);
            continue;
        }
        // Crates may write to stdout themselves.
        let Some(form) = forms.last_mut() else { continue };
        match word {
            "held" => {
                let (what, by) = rest.split_once(' ').context("held WHAT BY")?;
                form.held.push((what.to_owned(), by.to_owned()));
            }
            "note" => form.note = rest.to_owned(),
            "count" => {
                let (label, calls) = rest.split_once(' ').context("count LABEL CALLS")?;
                let cost =
                    costs.get(label).with_context(|| format!("callgrind has no `{label}`"))?;
                let calls: f64 = calls.parse().with_context(|| format!("`{line}`"))?;
                let work = label.rsplit('/').next().unwrap_or_default();
                let allocations = allocations.get(label).context("no count of allocations")?;
                let (instructions, allocations) = (*cost as f64 / calls, allocations / calls);
                let cell = Cell { instructions, with_lto: None, allocations };
                form.cells.insert(work.to_owned(), cell);
            }
            _ => {}
        }
    }
    if forms.iter().any(|form| form.cells.is_empty()) || forms.is_empty() {
        bail!("nothing was counted");
    }
    Ok(forms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read() {
        let costs = HashMap::from([("a/b/post", 640)]);
        let said = "noise\nform a/b\nheld state type\nnote so so\nallocations a/b/post 32\n\
                    count a/b/post 32\n";
        let forms = parse(said, &costs).expect("well formed");
        assert_eq!(forms[0].held, [("state".to_owned(), "type".to_owned())]);
        let cell = &forms[0].cells["post"];
        assert_eq!((cell.instructions, cell.allocations), (20.0, 1.0));
    }

    #[test]
    fn a_program_that_counts_nothing_is_an_error() {
        assert!(parse("form a/b\n", &HashMap::new()).is_err());
    }
}
