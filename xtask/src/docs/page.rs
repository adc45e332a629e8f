//! What a reader has on one page: a type with its methods, a module with its own words.

use std::collections::HashMap;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

use super::example::Example;
use super::items::{Item, Kind};

/// Markdown, as far as it is asked for.
#[derive(Default)]
pub struct Page {
    pub headings: Vec<String>,
    pub examples: Vec<Example>,
}

impl Page {
    pub fn of(docs: &str) -> Self {
        let mut page = Self::default();
        let (mut heading, mut code) = (None::<String>, None::<String>);
        for event in Parser::new(docs) {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => page.headings.extend(heading.take()),
                Event::Start(Tag::CodeBlock(kind)) if is_example(&kind) => {
                    code = Some(String::new());
                }
                Event::End(TagEnd::CodeBlock) => {
                    page.examples.extend(code.take().map(|text| Example::of(&text)));
                }
                Event::Text(text) | Event::Code(text) => {
                    if let Some(all) = heading.as_mut().or(code.as_mut()) {
                        all.push_str(&text);
                    }
                }
                _ => {}
            }
        }
        page
    }
}

/// Whether rustdoc compiles it.
fn is_example(kind: &CodeBlockKind<'_>) -> bool {
    let CodeBlockKind::Fenced(info) = kind else { return true };
    let mut words = info.split([',', ' ']).filter(|word| !word.is_empty());
    words.all(|word| {
        ["rust", "no_run", "compile_fail", "should_panic"].contains(&word)
            || word.starts_with("edition")
            || (word.len() == 5 && word.starts_with('E'))
    })
}

/// The pages on which items are shown, by the index of the type, trait or module.
pub struct Pages {
    of: HashMap<usize, Page>,
    modules: HashMap<String, usize>,
}

pub fn pages(items: &[Item]) -> Pages {
    let mut text: HashMap<usize, String> = HashMap::new();
    let mut modules = HashMap::new();
    for (index, item) in items.iter().enumerate() {
        let page = text.entry(root(items, index)).or_default();
        for docs in item.remarks.iter().chain([&item.docs]) {
            page.push_str("\n\n");
            page.push_str(docs);
        }
        if item.kind == Kind::Module {
            modules.insert(item.path.clone(), index);
        }
    }
    let of = text.into_iter().map(|(index, text)| (index, Page::of(&text))).collect();
    Pages { of, modules }
}

/// The item whose page it is: that of a variant's field is the enum's.
pub fn root(items: &[Item], index: usize) -> usize {
    items[index].owner.map_or(index, |owner| root(items, owner))
}

impl Pages {
    /// The examples of the page that an item is on, of the module in which it is, and of what its own documentation or
    /// that of its type links to.
    pub fn examples<'a>(
        &'a self,
        items: &'a [Item],
        index: usize,
    ) -> impl Iterator<Item = &'a Example> {
        let (item, owner) = (&items[index], root(items, index));
        let links = item.links(items).chain(items[owner].links(items));
        let linked = links.map(|to| root(items, to));
        let pages = [owner].into_iter().chain(self.module(item)).chain(linked);
        pages.filter_map(|page| self.of.get(&page)).flat_map(|page| &page.examples)
    }

    pub fn module(&self, item: &Item) -> Option<usize> {
        self.modules.get(&item.module).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::Page;

    fn examples(info: &str) -> usize {
        Page::of(&format!("Words.\n\n```{info}\nlet a = 1;\n```\n\n# Errors\nNone.")).examples.len()
    }

    #[test]
    fn only_what_rustdoc_compiles_is_an_example() {
        for info in ["", "rust", "no_run", "should_panic", "compile_fail,E0277"] {
            assert_eq!(examples(info), 1, "{info}");
        }
        for info in ["text", "c", "sh", "toml", "ignore", "rust,ignore"] {
            assert_eq!(examples(info), 0, "{info}");
        }
    }

    #[test]
    fn headings_are_those_outside_of_examples() {
        let page = Page::of("```\n# Hidden\nlet a = 1;\n```\n\n# `Errors`\nNone.");
        assert_eq!(page.headings, ["Errors"]);
    }
}
