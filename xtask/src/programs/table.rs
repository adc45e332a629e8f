//! tests/programs/calls.toml: the public calls, as a generated program uses them.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::term::Term;
use crate::paths;

/// The table as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    sets: BTreeMap<String, Vec<String>>,
    maps: BTreeMap<String, BTreeMap<String, String>>,
    values: BTreeMap<String, Value>,
    call: Vec<WrittenCall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCall {
    of: Vec<String>,
    name: Option<String>,
    #[serde(default)]
    takes: Vec<String>,
    #[serde(default, rename = "where")]
    wheres: Vec<String>,
    #[serde(default)]
    gives: Vec<String>,
    #[serde(default)]
    borrows: Vec<String>,
    #[serde(default)]
    inherits: Vec<String>,
    #[serde(default)]
    on: Vec<String>,
    #[serde(default)]
    kin: Vec<String>,
    at: Option<String>,
    code: String,
    #[serde(default)]
    pick: BTreeMap<String, Vec<String>>,
    weight: Option<u32>,
    #[serde(default)]
    panics: bool,
    settles: Option<String>,
    #[serde(default)]
    flags: Vec<String>,
}

/// What a program may do with a value of a type.
#[derive(Clone, Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub struct Value {
    /// It may go to another thread.
    #[serde(default)]
    pub send: bool,
    #[serde(default)]
    pub copy: bool,
    /// `qp`, `srq` or `cq`.
    #[serde(default)]
    pub role: String,
    /// A program has few of them, and seldom loses one.
    #[serde(default)]
    pub few: bool,
    /// It stands in the way of others while it lives: it is used soon.
    #[serde(default)]
    pub eager: bool,
    /// Forgetting it loses nothing.
    #[serde(default)]
    pub plain: bool,
    /// Threads may share it.
    #[serde(default)]
    pub sync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Value,
    Shared,
    Exclusive,
}

pub struct Arg {
    pub name: String,
    pub mode: Mode,
    pub ty: Term,
}

pub enum Where {
    /// The variable is one of these.
    In(String, Vec<String>),
    /// The variable is what the map says of another.
    Map(String, BTreeMap<String, String>, String),
}

pub struct Row {
    pub name: String,
    pub takes: Vec<Arg>,
    pub wheres: Vec<Where>,
    pub gives: Vec<Term>,
    pub borrows: Vec<usize>,
    pub inherits: Vec<usize>,
    pub on: Vec<usize>,
    pub kin: Vec<usize>,
    pub at: Option<(usize, usize)>,
    pub code: String,
    pub pick: BTreeMap<String, Vec<String>>,
    pub weight: u32,
    pub panics: bool,
    pub settles: Option<usize>,
    pub flags: Vec<String>,
}

pub struct Table {
    pub rows: Vec<Row>,
    pub values: BTreeMap<String, Value>,
}

pub fn read() -> Result<Table> {
    let path = paths::workspace().join("tests/programs/calls.toml");
    let text = fs::read_to_string(&path).context("cannot read tests/programs/calls.toml")?;
    parse(&text).context("tests/programs/calls.toml")
}

fn parse(text: &str) -> Result<Table> {
    let written: Written = toml::from_str(text)?;
    let Written { sets, maps, values, call } = written;
    let mut rows = Vec::new();
    for call in call {
        let name = call.name.clone().or(call.of.first().cloned()).context("a row without `of`")?;
        rows.push(row(call, &sets, &maps, &values).with_context(|| format!("row `{name}`"))?);
    }
    Ok(Table { rows, values })
}

fn row(
    call: WrittenCall,
    sets: &BTreeMap<String, Vec<String>>,
    maps: &BTreeMap<String, BTreeMap<String, String>>,
    values: &BTreeMap<String, Value>,
) -> Result<Row> {
    let takes: Vec<Arg> = call.takes.iter().map(|text| arg(text)).collect::<Result<_>>()?;
    let at = |name: &String| {
        let found = takes.iter().position(|arg| arg.name == *name);
        found.with_context(|| format!("it takes no `{name}`"))
    };
    let each = |names: &[String]| names.iter().map(at).collect::<Result<Vec<_>>>();
    let mut wheres = Vec::new();
    for text in &call.wheres {
        let words: Vec<&str> = text.split_whitespace().collect();
        wheres.push(match words[..] {
            [variable, "in", set] => {
                let set = sets.get(set).with_context(|| format!("there is no set `{set}`"))?;
                Where::In(variable.to_owned(), set.clone())
            }
            [variable, "=", map, of] => {
                let map = maps.get(map).with_context(|| format!("there is no map `{map}`"))?;
                Where::Map(variable.to_owned(), map.clone(), of.to_owned())
            }
            _ => bail!("`{text}`: neither `P in set` nor `E = map P`"),
        });
    }
    let gives: Vec<Term> = call.gives.iter().map(|it| Term::parse(it)).collect::<Result<_>>()?;
    for ty in takes.iter().map(|arg| &arg.ty).chain(&gives) {
        if !ty.is_variable() && !values.contains_key(&ty.name) {
            bail!("`{}` is not among the values", ty.name);
        }
    }
    let pair = match call.at.as_deref().map(|text| text.split_once(' ')) {
        Some(Some((qp, cq))) => Some((at(&qp.to_owned())?, at(&cq.to_owned())?)),
        Some(None) => bail!("`at` has two arguments"),
        None => None,
    };
    if call.panics && !gives.is_empty() {
        bail!("it may panic, so nothing comes out of it");
    }
    let (borrows, inherits) = (each(&call.borrows)?, each(&call.inherits)?);
    let (on, kin) = (each(&call.on)?, each(&call.kin)?);
    let settles = call.settles.as_ref().map(at).transpose()?;
    Ok(Row {
        name: call.name.unwrap_or_else(|| call.of[0].clone()),
        takes,
        wheres,
        gives,
        borrows,
        inherits,
        on,
        kin,
        at: pair,
        code: call.code,
        pick: call.pick,
        weight: call.weight.unwrap_or(10),
        panics: call.panics,
        settles,
        flags: call.flags,
    })
}

/// `name: &mut T`.
fn arg(text: &str) -> Result<Arg> {
    let (name, ty) = text.split_once(':').with_context(|| format!("`{text}` has no type"))?;
    let ty = ty.trim();
    let (mode, ty) = match ty.strip_prefix('&') {
        Some(ty) => match ty.strip_prefix("mut ") {
            Some(ty) => (Mode::Exclusive, ty),
            None => (Mode::Shared, ty),
        },
        None => (Mode::Value, ty),
    };
    Ok(Arg { name: name.trim().to_owned(), mode, ty: Term::parse(ty)? })
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_table_can_be_read() {
        let table = super::read().expect("it is in order");
        assert!(table.rows.len() > 80);
    }
}
