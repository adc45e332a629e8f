//! Mutants of the posting macros (`rules/expansions.toml`): a check of theirs taken away, or
//! something else emitted.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::mutants::{Kind, Mutant, read};
use crate::paths;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changes {
    change: Vec<Change>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    file: String,
    what: String,
    from: String,
    to: Option<String>,
}

pub fn all(root: &Path) -> Result<Vec<Mutant>> {
    const FILE: &str = "rules/expansions.toml";
    let changes: Changes = toml::from_str(&read(&paths::workspace(), FILE)?).context(FILE)?;
    let mutant = |Change { file, what, from, to }| {
        let text = read(root, &file)?;
        ensure!(text.matches(&from).count() == 1, "{file} has `{from}` not once: mend {FILE}");
        let text = match to {
            None => text.replace("Span::mixed_site()", "Span::call_site()"),
            Some(to) => text.replacen(&from, &to, 1),
        };
        let what = format!("{file}: {what}");
        Ok(Mutant { kind: Kind::Emitted, what, file, text, names: Vec::new() })
    };
    changes.change.into_iter().map(mutant).collect()
}
