//! The items that a user can reach, each once, by the shortest path.

use std::collections::{HashSet, VecDeque};
use std::fmt;

use anyhow::{Context, Result};
use rustdoc_types::{Crate, Id, Item as Told, ItemEnum, ItemKind, StructKind, Type, VariantKind};

/// A public item.
pub struct Item {
    pub kind: Kind,
    pub name: String,
    /// As a user names it: `proverbs::QueuePair::modify`.
    pub path: String,
    /// The module in which a user finds it.
    pub module: String,
    /// File and line.
    pub place: String,
    pub docs: String,
    /// The type or trait on whose page it is, by index.
    pub owner: Option<usize>,
    /// More that is on its page: what is said of its impl blocks.
    pub remarks: Vec<String>,
    id: Id,
    links: Vec<Id>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Module,
    Type,
    Trait,
    Function {
        has_self: bool,
        gives_result: bool,
        is_unsafe: bool,
    },
    Macro,
    /// Fields, variants, constants, associated types, and methods that another crate's macro writes: part of what
    /// they belong to.
    Part,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Module => "module",
            Self::Type => "type",
            Self::Trait => "trait",
            Self::Function { has_self: true, .. } => "method",
            Self::Function { .. } => "function",
            Self::Macro => "macro",
            Self::Part => "part",
        })
    }
}

impl Item {
    /// Its signature, if it is a function.
    pub fn function<'a>(&self, krate: &'a Crate) -> Option<&'a rustdoc_types::Function> {
        match &krate.index.get(&self.id)?.inner {
            ItemEnum::Function(function) => Some(function),
            _ => None,
        }
    }

    /// What its documentation links to, by index.
    pub fn links<'a>(&'a self, items: &'a [Item]) -> impl Iterator<Item = usize> {
        let linked = |(_, item): &(usize, &Item)| self.links.contains(&item.id);
        items.iter().enumerate().filter(linked).map(|(index, _)| index)
    }
}

/// All that can be reached from the root of the crate; `macros` is the crate of its procedural macros.
pub fn public(krate: &Crate, macros: &Crate) -> Result<Vec<Item>> {
    let root = krate.index.get(&krate.root).context("the crate has a root")?;
    let mut walk = Walk { krate, macros, seen: HashSet::new(), items: Vec::new() };
    let name = root.name.clone().unwrap_or_default();
    walk.add(root, Kind::Module, &name, &name, None);
    // By levels, so that the shortest path is the one that is found first.
    let mut modules = VecDeque::from([(root, name)]);
    while let Some((module, path)) = modules.pop_front() {
        walk.module(module, &path, &mut modules);
    }
    Ok(walk.items)
}

struct Walk<'a> {
    krate: &'a Crate,
    macros: &'a Crate,
    seen: HashSet<Id>,
    items: Vec<Item>,
}

impl<'a> Walk<'a> {
    fn get(&self, id: &Id) -> Option<&'a Told> {
        self.krate.index.get(id)
    }

    fn module(&mut self, it: &'a Told, path: &str, modules: &mut VecDeque<(&'a Told, String)>) {
        let ItemEnum::Module(module) = &it.inner else { return };
        for id in &module.items {
            let Some(item) = self.get(id) else { continue };
            let ItemEnum::Use(used) = &item.inner else {
                self.free(item, None, path, modules);
                continue;
            };
            let Some(target) = &used.id else { continue };
            match self.get(target) {
                // `pub use private::*`: as if it stood here.
                Some(target) if used.is_glob => self.module(target, path, modules),
                Some(target) => self.free(target, Some((item, &used.name)), path, modules),
                None => self.procedural(item, target, &used.name, path),
            }
        }
    }

    /// A procedural macro. Its own crate has no examples that run; what stands at the `use` does.
    fn procedural(&mut self, place: &'a Told, id: &Id, name: &str, module: &str) {
        let is_macro = |kind| kind == ItemKind::Macro;
        if !self.krate.paths.get(id).is_some_and(|summary| is_macro(summary.kind)) {
            return;
        }
        let mut all = self.macros.index.values();
        let found = all.find(|item| item.name.as_deref() == Some(name) && item.crate_id == 0);
        let docs = found.and_then(|item| item.docs.clone()).unwrap_or_default();
        let index = self.add(place, Kind::Macro, module, name, None);
        self.items[index].docs.push_str(&format!("\n\n{docs}"));
    }

    /// An item of a module, or what a `use` there names.
    fn free(
        &mut self,
        item: &'a Told,
        used: Option<(&'a Told, &str)>,
        module: &str,
        modules: &mut VecDeque<(&'a Told, String)>,
    ) {
        let name = used.map(|(_, name)| name).or(item.name.as_deref()).unwrap_or_default();
        let kind = match &item.inner {
            ItemEnum::Module(_) => Kind::Module,
            ItemEnum::Struct(_) | ItemEnum::Enum(_) | ItemEnum::Union(_) => Kind::Type,
            ItemEnum::TypeAlias(_) => Kind::Type,
            ItemEnum::Trait(_) => Kind::Trait,
            ItemEnum::Function(function) => function_kind(function),
            ItemEnum::Macro(_) | ItemEnum::ProcMacro(_) => Kind::Macro,
            ItemEnum::Constant { .. } | ItemEnum::Static(_) => Kind::Part,
            _ => return,
        };
        if item.crate_id != 0 || !self.seen.insert(item.id) {
            return;
        }
        let index = self.add(item, kind, module, name, None);
        if let Some(docs) = used.and_then(|(place, _)| place.docs.as_deref()) {
            self.items[index].docs.push_str(&format!("\n\n{docs}"));
        }
        match &item.inner {
            ItemEnum::Module(_) => modules.push_back((item, format!("{module}::{name}"))),
            ItemEnum::Struct(it) => {
                if let StructKind::Plain { fields, .. } = &it.kind {
                    self.parts(fields, index);
                }
                self.methods(&it.impls, index);
            }
            ItemEnum::Union(it) => {
                self.parts(&it.fields, index);
                self.methods(&it.impls, index);
            }
            ItemEnum::Enum(it) => {
                self.parts(&it.variants, index);
                self.methods(&it.impls, index);
            }
            ItemEnum::Trait(it) => self.parts(&it.items, index),
            _ => {}
        }
    }

    /// Inherent impls: what is said of those of a trait is said at the trait.
    fn methods(&mut self, impls: &[Id], owner: usize) {
        let blocks = |id| match self.krate.index.get(id).map(|item| (item, &item.inner)) {
            Some((item, ItemEnum::Impl(block))) => Some((item, block)),
            _ => None,
        };
        let all: Vec<_> = impls.iter().filter_map(blocks).collect();
        let is_flags = |path: &rustdoc_types::Path| path.path.rsplit("::").next() == Some("Flags");
        let bitflags = all.iter().any(|(_, block)| block.trait_.as_ref().is_some_and(is_flags));
        for (item, block) in all.into_iter().filter(|(_, block)| block.trait_.is_none()) {
            self.items[owner].remarks.extend(item.docs.clone());
            let from = self.items.len();
            self.parts(&block.items, owner);
            // What `bitflags!` writes has the place of the macro.
            let place = self.items[owner].place.clone();
            let written = |item: &&mut Item| bitflags && item.place == place;
            self.items[from..].iter_mut().filter(written).for_each(|item| item.kind = Kind::Part);
        }
    }

    /// Fields, variants, methods, associated items.
    fn parts(&mut self, ids: &[Id], owner: usize) {
        for id in ids {
            let Some(item) = self.get(id) else { continue };
            let kind = match &item.inner {
                ItemEnum::Function(function) => function_kind(function),
                _ => Kind::Part,
            };
            if !self.seen.insert(item.id) {
                continue;
            }
            let path = self.items[owner].path.clone();
            let name = item.name.clone().unwrap_or_default();
            let index = self.add(item, kind, &path, &name, Some(owner));
            if let ItemEnum::Variant(variant) = &item.inner
                && let VariantKind::Struct { fields, .. } = &variant.kind
            {
                self.parts(fields, index);
            }
        }
    }

    fn add(
        &mut self,
        item: &Told,
        kind: Kind,
        within: &str,
        name: &str,
        owner: Option<usize>,
    ) -> usize {
        let is_root = item.id == self.krate.root;
        let path = if is_root { name.to_owned() } else { format!("{within}::{name}") };
        let module = match owner {
            Some(owner) => self.items[owner].module.clone(),
            None if kind == Kind::Module => path.clone(),
            None => within.to_owned(),
        };
        let place = item.span.as_ref().map_or("(from a macro)".to_owned(), |span| {
            format!("{}:{}", span.filename.display(), span.begin.0)
        });
        let docs = item.docs.clone().unwrap_or_default();
        let name = name.to_owned();
        let (id, links) = (item.id, item.links.values().copied().collect());
        self.items.push(Item {
            kind,
            name,
            path,
            module,
            place,
            docs,
            owner,
            remarks: Vec::new(),
            id,
            links,
        });
        self.items.len() - 1
    }
}

fn function_kind(function: &rustdoc_types::Function) -> Kind {
    let gives_result = match &function.sig.output {
        Some(Type::ResolvedPath(path)) => path.path.rsplit("::").next() == Some("Result"),
        _ => false,
    };
    let has_self = function.sig.inputs.first().is_some_and(|(name, _)| name == "self");
    Kind::Function { has_self, gives_result, is_unsafe: function.header.is_unsafe }
}
