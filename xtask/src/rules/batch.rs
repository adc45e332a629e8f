//! Mutants of different rows, checked together.
//!
//! An impl more or less shows in the truth table as an error that names its row. So one run of the compiler tells of
//! many mutants, if no two of them have the same row; whatever no error names is checked alone.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Result;

use super::mutants::{Kind, Mutant};

/// Rows that other rows are made of: an error about those would be theirs.
const MADE_OF: [&str; 3] = ["Rc", "Uc", "Ud"];

/// Groups of mutants without a row in common, as indices.
pub fn groups(mutants: &[Mutant]) -> Vec<Vec<usize>> {
    let mut groups: Vec<(BTreeSet<String>, Vec<usize>)> = Vec::new();
    for (i, mutant) in mutants.iter().enumerate() {
        let Some(row) = row(mutant).filter(|_| mutant.equivalent().is_none()) else { continue };
        match groups.iter_mut().find(|(rows, _)| !rows.contains(&row)) {
            Some((rows, group)) => {
                rows.insert(row);
                group.push(i);
            }
            None => groups.push((BTreeSet::from([row]), vec![i])),
        }
    }
    groups.into_iter().map(|(_, group)| group).filter(|group| group.len() > 1).collect()
}

/// The type whose impl is added or taken away, as an error writes it.
pub fn row(mutant: &Mutant) -> Option<String> {
    let impls = matches!(mutant.kind, Kind::IllegalImpl | Kind::LostImpl);
    let (_, rest) = mutant.what.split_once(" for ").filter(|_| impls)?;
    let row = rest.trim_end_matches("{}").trim();
    (!MADE_OF.contains(&row)).then(|| plain(row))
}

/// Without what the compiler may write otherwise: paths and lifetimes.
fn plain(text: &str) -> String {
    let text = text.replace("proverbs::", "").replace("std::ops::", "");
    ["'static, ", "'_, ", "'static ", "<'static>", "<'_>"]
        .iter()
        .fold(text, |text, lifetime| text.replace(lifetime, ""))
}

/// The rows of `group` that an error names as the type that has, or lacks, a trait.
pub fn named<'a>(errors: &str, group: &[usize], mutants: &'a [Mutant]) -> Vec<(usize, &'a Mutant)> {
    let errors = plain(errors);
    let is_named = |mutant: &Mutant| {
        row(mutant).is_some_and(|row| {
            errors.contains(&format!("`{row}: ")) || errors.contains(&format!("for `{row}`"))
        })
    };
    let found = group.iter().map(|&i| (i, &mutants[i]));
    found.filter(|(_, mutant)| is_named(mutant)).collect()
}

/// Writes all mutants of a group into the copy, and gives what was there.
pub fn write(dir: &Path, group: &[&Mutant]) -> Result<Vec<(&'static str, String)>> {
    let files: BTreeSet<&'static str> = group.iter().map(|mutant| mutant.file).collect();
    let mut originals = Vec::new();
    for file in files {
        let original = fs::read_to_string(dir.join(file))?;
        let mut text = original.clone();
        let mut added = String::new();
        for (n, mutant) in group.iter().filter(|mutant| mutant.file == file).enumerate() {
            match mutant.kind {
                Kind::LostImpl => text = text.replacen(&format!("{}\n", mutant.what), "", 1),
                _ => {
                    let more = mutant.text.strip_prefix(original.as_str()).unwrap_or_default();
                    added += &more.replace("mod mutant ", &format!("mod mutant{n} "));
                }
            }
        }
        fs::write(dir.join(file), text + &added)?;
        originals.push((file, original));
    }
    Ok(originals)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(what: &str) -> Mutant {
        let (kind, file) = (Kind::IllegalImpl, "src/rules.rs");
        Mutant { kind, what: what.into(), file, text: String::new(), names: Vec::new() }
    }

    #[test]
    fn a_group_has_each_row_once() {
        let mutants = [
            mutant("impl A for Send {}"),
            mutant("impl B for Send {}"),
            mutant("impl A for SendWithImm {}"),
            mutant("impl A for Rc {}"),
        ];
        assert_eq!(groups(&mutants), [vec![0, 2]]);
    }

    #[test]
    fn an_error_names_one_row() {
        let mutants = [mutant("impl A for Send {}"), mutant("impl A for Inline<'static, 8> {}")];
        let errors =
            "note: multiple `impl`s satisfying `proverbs::Inline<'_, 8>: Ambiguous<_>` found";
        let found: Vec<_> = named(errors, &[0, 1], &mutants).into_iter().map(|(i, _)| i).collect();
        assert_eq!(found, [1]);
    }
}
