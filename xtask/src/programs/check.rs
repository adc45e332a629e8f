//! The table against the public interface: no call is left out, none is named that is not there,
//! and what a row says of its receiver and of borrows is what the signature says.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use rustdoc_types::{Function, GenericArg, GenericArgs, Type};

use super::table::{Mode, Row, Table};
use crate::interface;

pub fn check(table: &Table) -> Result<()> {
    let all = interface::calls()?;
    // A call that safe code can make, as the table names it.
    let calls: BTreeMap<String, Option<&Function>> = all
        .iter()
        .filter_map(|call| match &call.function {
            None => Some((format!("{}!", call.path), None)),
            Some(function) if function.header.is_unsafe => None,
            Some(function) => Some((call.path.clone(), Some(function))),
        })
        .collect();
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for row in &table.rows {
        for of in row.of.iter().filter(|of| !is_of_a_trait(of)) {
            match calls.get(of) {
                Some(Some(function)) if row.of.len() == 1 => wrong.extend(differs(row, function)),
                Some(_) => {}
                None => wrong.push(format!("row `{}`: there is no public `{of}`", row.name)),
            }
            used.insert(of.clone());
        }
    }
    let mut excluded = 0;
    for name in calls.keys().filter(|name| !used.contains(*name)) {
        let fits = |what: &String| match what.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => name == what,
        };
        match table.excluded.iter().any(|it| it.what.iter().any(fits)) {
            true => excluded += 1,
            false => wrong.push(format!("`{name}` is neither in the table nor excluded")),
        }
    }
    for it in &table.excluded {
        if it.why.trim().is_empty() {
            wrong.push(format!("{:?} are excluded without a reason", it.what));
        }
        for what in &it.what {
            let start = what.trim_end_matches('*');
            if !calls.keys().any(|name| name.starts_with(start)) {
                wrong.push(format!("`{what}` is excluded, and not there"));
            }
        }
    }
    if !wrong.is_empty() {
        bail!("tests/programs/calls.toml and the interface differ:\n  {}", wrong.join("\n  "));
    }
    println!(
        "{} public calls: {} in {} rows of the table, {excluded} excluded with a reason",
        calls.len(),
        used.len(),
        table.rows.len()
    );
    Ok(())
}

/// `Completions: Iterator`, and what std has for a Vec.
fn is_of_a_trait(of: &str) -> bool {
    of.contains(": ") || of.starts_with("Vec::")
}

/// What the row says otherwise than the signature.
fn differs(row: &Row, function: &Function) -> Option<String> {
    let receiver = function.sig.inputs.first().filter(|(name, _)| name == "self");
    let mode = receiver.map(|(_, ty)| match ty {
        Type::BorrowedRef { is_mutable: true, .. } => Mode::Exclusive,
        Type::BorrowedRef { .. } => Mode::Shared,
        _ => Mode::Value,
    });
    if let Some(mode) = mode.filter(|mode| !row.takes.iter().any(|arg| arg.mode == *mode)) {
        return Some(format!("row `{}` takes nothing as the receiver is: {mode:?}", row.name));
    }
    let lends = function.sig.output.as_ref().is_some_and(borrows);
    let says = !(row.borrows.is_empty() && row.inherits.is_empty());
    let all = row.gives.iter().any(|ty| !ty.is_variable());
    if says && !lends {
        return Some(format!("row `{}` says that the result borrows; it does not", row.name));
    }
    (all && lends && !says && row.code.matches(".poll").count() == 1)
        .then(|| format!("row `{}` does not say what the result borrows", row.name))
}

/// Whether a type has a lifetime in it.
fn borrows(ty: &Type) -> bool {
    match ty {
        Type::BorrowedRef { lifetime, .. } => lifetime.as_deref() != Some("'static"),
        Type::ResolvedPath(path) => path.args.as_deref().is_some_and(|args| match args {
            GenericArgs::AngleBracketed { args, .. } => args.iter().any(|arg| match arg {
                GenericArg::Lifetime(name) => name != "'static",
                GenericArg::Type(ty) => borrows(ty),
                _ => false,
            }),
            _ => false,
        }),
        Type::Tuple(all) => all.iter().any(borrows),
        _ => false,
    }
}
