//! What is asked of an item, and whether it is there.

use super::items::{Item, Kind};
use super::page::{self, Page, Pages};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Docs,
    Errors,
    Example,
    Source,
    Safety,
}

#[derive(Clone, Copy)]
pub struct Missing(Asked);

pub struct Told {
    pub asked: Vec<Asked>,
    pub missing: Vec<Missing>,
}

impl Missing {
    pub fn asked(self) -> Asked {
        self.0
    }

    pub fn words(self) -> &'static str {
        match self.0 {
            Asked::Docs => "is not documented",
            Asked::Errors => "gives a Result and has no `# Errors`",
            Asked::Example => {
                "is in no example: its own, of its type, of its module, or of a page that it links to"
            }
            Asked::Source => "names no manual page and no rule, nor does its type or its module",
            Asked::Safety => "is unsafe and has no `# Safety`",
        }
    }
}

pub fn of(index: usize, items: &[Item], pages: &Pages) -> Told {
    let item = &items[index];
    let own = Page::of(&item.docs);
    let has_heading = |name: &str| own.headings.iter().any(|heading| heading == name);
    let mut told = Told { asked: Vec::new(), missing: Vec::new() };
    let mut ask = |what, is_there: bool| {
        told.asked.push(what);
        if !is_there {
            told.missing.push(Missing(what));
        }
    };
    // A field of a tuple has a number for a name, and is told with its variant.
    if !item.name.chars().all(|c| c.is_ascii_digit()) {
        ask(Asked::Docs, !item.docs.trim().is_empty());
    }
    if let Kind::Function { gives_result, is_unsafe, .. } = item.kind {
        if gives_result {
            ask(Asked::Errors, has_heading("Errors"));
        }
        if is_unsafe {
            ask(Asked::Safety, has_heading("Safety"));
        }
    }
    if !matches!(item.kind, Kind::Module | Kind::Part) {
        let shows = !own.examples.is_empty() || is_shown(index, items, pages);
        ask(Asked::Example, shows);
        let module = pages.module(item).filter(|module| *module != 0);
        let around = [Some(index), Some(page::root(items, index)), module];
        let mut texts = around
            .into_iter()
            .flatten()
            .flat_map(|at| items[at].remarks.iter().chain([&items[at].docs]));
        ask(Asked::Source, texts.any(|text| names_a_source(text)));
    }
    told
}

/// Whether an example next to it uses it.
fn is_shown(index: usize, items: &[Item], pages: &Pages) -> bool {
    let item = &items[index];
    let owner = item.owner.map(|owner| items[owner].name.as_str());
    pages.examples(items, index).any(|example| match (item.kind, owner) {
        (Kind::Macro, _) => example.invokes(&item.name),
        (Kind::Function { has_self: true, .. }, _) => example.calls(&item.name),
        (Kind::Function { .. }, Some(owner)) => example.calls_on(owner, &item.name),
        _ => example.names(&item.name),
    })
}

/// A manual page (`ibv_post_send`, `rdma_connect`, IBV_WR_SEND), a rule (R1.1), or a word of the design for what verbs
/// do not have.
fn names_a_source(text: &str) -> bool {
    const PREFIXES: [&str; 5] = ["ibv_", "rdma_", "IBV_", "RDMA_", "ibverbs"];
    const DESIGN: [&str; 2] = ["loopback", "wire format"];
    let mut words = text.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'));
    words.any(|word| PREFIXES.iter().any(|prefix| word.starts_with(prefix)) || is_rule(word))
        || DESIGN.iter().any(|word| text.contains(word))
}

/// R1.1, R10.13.
fn is_rule(word: &str) -> bool {
    let Some((chapter, number)) = word.strip_prefix('R').and_then(|rest| rest.split_once('.'))
    else {
        return false;
    };
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    is_number(chapter) && is_number(number.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::names_a_source;

    #[test]
    fn manual_pages_and_rules_are_sources() {
        for text in ["(`ibv_post_send`)", "of rdma_connect(3)", "IBV_WR_SEND", "(R7.1)", "R10.13."]
        {
            assert!(names_a_source(text), "{text}");
        }
        for text in ["posts a send", "RC and R2", "R1.x", "5.1", "RDMA WRITE"] {
            assert!(!names_a_source(text), "{text}");
        }
    }
}
