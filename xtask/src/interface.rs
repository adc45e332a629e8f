//! What a user can reach, each once, by the shortest path, as the nightly's rustdoc lists it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fs;

use anyhow::{Context, Result, bail};
use rustdoc_types::{
    Crate, FORMAT_VERSION, Function, Id, Item, ItemEnum, ItemKind, Struct, StructKind,
};
use serde_json::Value;

use crate::{cargo, paths, toolchain};

/// A public function, method or macro.
pub struct Call {
    /// As a user names it, without the crate: `QueuePair::modify`.
    pub path: String,
    /// A macro has none.
    pub function: Option<Function>,
}

/// All calls of the crate.
pub fn calls() -> Result<Vec<Call>> {
    Ok(walk()?.0)
}

/// The paths of all public items of the crate: of types and their fields and variants, of traits,
/// calls and constants.
pub fn names() -> Result<BTreeSet<String>> {
    Ok(walk()?.1)
}

fn walk() -> Result<(Vec<Call>, BTreeSet<String>)> {
    toolchain::nightly()?;
    let krate = rustdoc()?;
    let root = krate.index.get(&krate.root).context("the crate has a root")?;
    let (calls, names) = (Vec::new(), BTreeSet::new());
    let mut walk = Walk { krate: &krate, seen: HashSet::new(), calls, names };
    // By levels, so that the shortest path is the one that is found first.
    let mut modules = VecDeque::from([(root, String::new())]);
    while let Some((module, path)) = modules.pop_front() {
        walk.module(module, &path, &mut modules);
    }
    let calls = walk.calls.iter().map(|call| call.path.clone());
    walk.names.extend(calls);
    Ok((walk.calls, walk.names))
}

/// What rustdoc says of the crate with all that users may turn on.
fn rustdoc() -> Result<Crate> {
    let mut args = vec!["rustdoc", "--quiet", "--lib", "-p", "proverbs"];
    args.extend(["--features", crate::test::FEATURES]);
    args.extend(["--", "-Z", "unstable-options", "--output-format", "json"]);
    cargo::nightly(&args)?.run()?;
    let file = paths::target()?.join("doc/proverbs.json");
    let text = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let value: Value = serde_json::from_slice(&text).context("rustdoc's JSON")?;
    // Looked at first: of another format, the rest may not parse.
    let found = &value["format_version"];
    if found.as_u64() != Some(FORMAT_VERSION.into()) {
        bail!(
            "the nightly's rustdoc writes JSON of format {found}, this command reads {FORMAT_VERSION}: set \
             `rustdoc-types = \"0.{found}\"` in xtask/Cargo.toml (or take a nightly of that format with rustup)"
        );
    }
    serde_json::from_value(value).context("rustdoc's JSON")
}

struct Walk<'a> {
    krate: &'a Crate,
    seen: HashSet<Id>,
    calls: Vec<Call>,
    /// Of what is no call.
    names: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn get(&self, id: &Id) -> Option<&'a Item> {
        self.krate.index.get(id)
    }

    fn module(&mut self, it: &'a Item, path: &str, modules: &mut VecDeque<(&'a Item, String)>) {
        let ItemEnum::Module(module) = &it.inner else { return };
        let krate = self.krate;
        for item in module.items.iter().filter_map(|id| krate.index.get(id)) {
            let ItemEnum::Use(used) = &item.inner else {
                self.free(item, item.name.as_deref(), path, modules);
                continue;
            };
            let Some(id) = &used.id else { continue };
            let summary = self.krate.paths.get(id);
            match self.get(id) {
                // `pub use private::*`: as if it stood here.
                Some(target) if used.is_glob => self.module(target, path, modules),
                Some(target) => self.free(target, Some(&used.name), path, modules),
                // A procedural macro is in a crate of its own.
                None if summary.is_some_and(|summary| summary.kind == ItemKind::Macro) => {
                    self.calls.push(Call { path: join(path, &used.name), function: None });
                }
                None => {}
            }
        }
    }

    /// An item of a module, or what a `use` there names.
    fn free(
        &mut self,
        item: &'a Item,
        name: Option<&str>,
        module: &str,
        modules: &mut VecDeque<(&'a Item, String)>,
    ) {
        if item.crate_id != 0 || !self.seen.insert(item.id) {
            return;
        }
        let path = join(module, name.unwrap_or_default());
        self.names.insert(path.clone());
        self.parts(item, &path);
        match &item.inner {
            // What it has stands elsewhere too.
            ItemEnum::Module(_) if path == "prelude" => {}
            ItemEnum::Module(_) => modules.push_back((item, path)),
            ItemEnum::Struct(it) => self.methods(item, &it.impls, &path),
            ItemEnum::Union(it) => self.methods(item, &it.impls, &path),
            ItemEnum::Enum(it) => self.methods(item, &it.impls, &path),
            ItemEnum::Trait(it) => it.items.iter().for_each(|id| self.function(id, &path)),
            ItemEnum::Function(function) => {
                self.calls.push(Call { path, function: Some(function.clone()) });
            }
            ItemEnum::Macro(_) | ItemEnum::ProcMacro(_) => {
                self.calls.push(Call { path, function: None });
            }
            _ => {}
        }
    }

    /// Fields and variants.
    fn parts(&mut self, item: &Item, path: &str) {
        let parts: &[Id] = match &item.inner {
            ItemEnum::Struct(Struct { kind: StructKind::Plain { fields, .. }, .. }) => fields,
            ItemEnum::Enum(it) => &it.variants,
            _ => &[],
        };
        let names = parts.iter().filter_map(|id| self.get(id)?.name.as_deref());
        let names: Vec<String> = names.map(|name| join(path, name)).collect();
        self.names.extend(names);
    }

    /// Inherent ones: those of a trait are the trait's.
    fn methods(&mut self, owner: &Item, impls: &[Id], path: &str) {
        let all = impls.iter().filter_map(|id| match &self.get(id)?.inner {
            ItemEnum::Impl(block) => Some(block),
            _ => None,
        });
        let blocks: Vec<_> = all.collect();
        let of = |name: &str| {
            blocks
                .iter()
                .any(|block| block.trait_.as_ref().is_some_and(|it| it.path.ends_with(name)))
        };
        // What `bitflags!` writes has the place of the macro, and is no call of ours.
        let written = of("Flags").then(|| owner.span.clone());
        for id in blocks.iter().filter(|block| block.trait_.is_none()).flat_map(|it| &it.items) {
            let Some(item) = self.get(id) else { continue };
            match (&item.inner, &item.name) {
                (ItemEnum::AssocConst { .. }, Some(name)) => {
                    self.names.insert(join(path, name));
                }
                _ if written.as_ref() != Some(&item.span) => self.function(id, path),
                _ => {}
            }
        }
    }

    fn function(&mut self, id: &Id, owner: &str) {
        let Some(Item { name: Some(name), inner: ItemEnum::Function(function), .. }) = self.get(id)
        else {
            return;
        };
        if self.seen.insert(*id) {
            self.calls.push(Call { path: join(owner, name), function: Some(function.clone()) });
        }
    }
}

fn join(module: &str, name: &str) -> String {
    if module.is_empty() { name.to_owned() } else { format!("{module}::{name}") }
}
