//! The result files, as the commands that measure write them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::field::results::Results as Field;
use crate::paths;
use crate::rate::pairs::Results as Rate;

/// Everything that was recorded.
pub struct Recorded {
    pub overhead: Overhead,
    pub field: Field,
    pub rate: Rate,
}

/// `benches/results.json`.
#[derive(Deserialize)]
pub struct Overhead {
    rows: Vec<Row>,
}

/// One row of it; what its fields mean is said where they are written.
#[derive(Deserialize)]
pub struct Row {
    family: String,
    row: String,
    rust: Option<f64>,
    c: BTreeMap<String, BTreeMap<String, f64>>,
}

pub fn all() -> Result<Recorded> {
    let benches = paths::workspace().join("benches");
    Ok(Recorded {
        overhead: read(&benches.join("results.json"))?,
        field: read(&benches.join("field/results.json"))?,
        rate: read(&benches.join("rate/results.json"))?,
    })
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T> {
    let text =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{}", file.display()))
}

impl Overhead {
    pub fn row(&self, family: &str, row: &str) -> Result<&Row> {
        let found = self.rows.iter().find(|found| found.family == family && found.row == row);
        found.with_context(|| format!("benches/results.json has no row {family}/{row}"))
    }
}

impl Row {
    /// Typed or safe Rust.
    pub fn rust(&self) -> Result<f64> {
        self.rust.with_context(|| format!("{}/{} has no Rust form", self.family, self.row))
    }

    /// The least of a form of C over all compilers.
    pub fn c(&self, form: &str) -> Result<f64> {
        let all = self.c.get(form).into_iter().flat_map(|all| all.values());
        let least = all.copied().min_by(f64::total_cmp);
        least.with_context(|| format!("{}/{} has no {form}", self.family, self.row))
    }
}
