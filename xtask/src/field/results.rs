//! What was measured, and its form for other programs: `benches/field/results.json`.

use std::collections::BTreeMap;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::build::Failed;

/// Everything that one run gave.
#[derive(Default, Serialize, Deserialize)]
pub struct Results {
    pub versions: Vec<String>,
    pub forms: Vec<Form>,
    pub failed: Vec<Failed>,
}

/// One way to do the work through one crate.
#[derive(Serialize, Deserialize)]
pub struct Form {
    #[serde(rename = "crate")]
    pub krate: String,
    #[serde(rename = "form")]
    pub name: String,
    /// What may go wrong, and who sees to it: `type`, `run`, `unsafe`, `device` or `nobody`.
    pub held: Vec<(String, String)>,
    pub note: String,
    /// By work: `post`, `chain4`, `recv`, `poll1`, `poll16`, `cycle`.
    pub cells: BTreeMap<String, Cell>,
}

/// What one call costs outside of the provider.
#[derive(Serialize, Deserialize)]
pub struct Cell {
    pub instructions: f64,
    pub with_lto: Option<f64>,
    pub allocations: f64,
}

impl Form {
    pub fn new(krate: &str, name: &str) -> Self {
        let (krate, name) = (krate.to_owned(), name.to_owned());
        Form { krate, name, held: Vec::new(), note: String::new(), cells: BTreeMap::new() }
    }

    pub fn allocates(&self) -> bool {
        self.cells.values().any(|cell| cell.allocations > 0.0)
    }
}

impl Results {
    /// The forms of one crate, as built, and the same with LTO (or none).
    pub fn add(&mut self, forms: Vec<Form>, with_lto: Vec<Form>) {
        for mut form in forms {
            let lto = with_lto.iter().find(|lto| lto.name == form.name);
            for (work, cell) in &mut form.cells {
                cell.with_lto = lto.and_then(|lto| lto.cells.get(work)).map(|it| it.instructions);
            }
            self.forms.push(form);
        }
    }
}

/// The text of the file.
pub fn json(results: &Results) -> Result<String> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    Ok(text)
}
