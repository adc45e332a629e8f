//! The forms of a program: what they hold, what they cost.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use crate::callgrind::Counted;

/// One way to do the work through one crate.
pub struct Form {
    pub krate: String,
    pub name: String,
    /// What may go wrong, and who sees to it: `type`, `run`, `unsafe`, `device` or `nobody`.
    pub held: Vec<(String, String)>,
    pub note: String,
    /// By work: `post`, `loop`, `echo8` and so on.
    pub cells: BTreeMap<String, Cell>,
}

/// What one call, or one item of a program, costs outside of the provider.
pub struct Cell {
    pub instructions: f64,
    pub with_lto: Option<f64>,
    pub allocations: f64,
}

/// Joins what a program said with what callgrind counted.
pub fn forms(counted: &Counted, with_lto: Option<&Counted>) -> Result<Vec<Form>> {
    let mut forms: Vec<Form> = Vec::new();
    let at = |counted: &Counted, label: &str| counted.each.iter().position(|(it, _)| it == label);
    let count = |counted: &Counted, label: &str| at(counted, label).map(|i| counted.each[i].1);
    for line in counted.said.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let two = || rest.split_once(' ').with_context(|| format!("`{line}` has two words more"));
        if word == "form" {
            let (krate, name) = rest.split_once('/').context("a form is CRATE/NAME")?;
            let (krate, name) = (krate.to_owned(), name.to_owned());
            let (held, note, cells) = (Vec::new(), String::new(), BTreeMap::new());
            forms.push(Form { krate, name, held, note, cells });
            continue;
        }
        // Crates may write to stdout themselves.
        let Some(form) = forms.last_mut() else { continue };
        match word {
            "held" => form.held.push(two().map(|(what, by)| (what.to_owned(), by.to_owned()))?),
            "note" => form.note = rest.to_owned(),
            "count" => {
                let label = two()?.0;
                let at = at(counted, label).context("callgrind counted it")?;
                let cell = Cell {
                    instructions: counted.each[at].1,
                    with_lto: with_lto.and_then(|lto| count(lto, label)),
                    allocations: counted.allocations[at],
                };
                form.cells.insert(label.rsplit('/').next().unwrap_or_default().to_owned(), cell);
            }
            _ => {}
        }
    }
    let counted = !forms.is_empty() && forms.iter().all(|form| !form.cells.is_empty());
    ensure!(counted, "a form was not counted");
    Ok(forms)
}

/// One form of several that differ in their compiler: of each work the smallest count.
pub fn best(name: &str, forms: Vec<Form>) -> Option<Form> {
    let best = forms.into_iter().reduce(|mut best, other| {
        for (work, cell) in other.cells {
            let least = best.cells.get(&work).map_or(f64::INFINITY, |cell| cell.instructions);
            if cell.instructions < least {
                best.cells.insert(work, cell);
            }
        }
        best
    });
    best.map(|best| Form { name: name.to_owned(), ..best })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_read() {
        let said = "noise\nform a/b\nheld state type\nnote so so\ncount a/b/post 32\n";
        let each = vec![("a/b/post".to_owned(), 20.0)];
        let read = forms(
            &Counted { said: said.into(), each, allocations: vec![1.0], accesses: Vec::new() },
            None,
        )
        .expect("well formed");
        assert_eq!(read[0].held, [("state".to_owned(), "type".to_owned())]);
        let cell = &read[0].cells["post"];
        assert_eq!((cell.instructions, cell.allocations), (20.0, 1.0));
        let nothing = Counted { said: "form a/b\n".into(), ..Counted::default() };
        assert!(forms(&nothing, None).is_err());
    }
    #[test]
    fn the_smaller_count_of_each_work_is_kept() {
        let form = |name: &str, counts: [f64; 2]| {
            let cell = |instructions| Cell { instructions, with_lto: None, allocations: 0.0 };
            let [post, poll] = counts.map(cell);
            let cells = [("post".to_owned(), post), ("poll".to_owned(), poll)].into();
            let (krate, name) = ("C".to_owned(), name.to_owned());
            Form { krate, name, held: Vec::new(), note: String::new(), cells }
        };
        let both = vec![form("gcc", [20.0, 31.0]), form("clang", [22.0, 30.0])];
        let best = best("either", both).expect("there are two");
        assert_eq!((best.krate.as_str(), best.name.as_str()), ("C", "either"));
        let counts = ["post", "poll"].map(|work| best.cells[work].instructions);
        assert_eq!(counts, [20.0, 30.0]);
    }
}
