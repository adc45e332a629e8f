//! Mutants of the posting macros: a check of theirs taken away, or something else emitted.

use std::path::Path;

use anyhow::{Result, ensure};

use super::mutants::{Kind, Mutant, read};

const LIST: &str = "macros/src/list.rs";
const EXPAND: &str = "macros/src/expand.rs";

/// File, what is lost, and the change.
const CHANGES: [(&str, &str, &str, &str); 20] = [
    (LIST, "a list may be empty", "if self.requests.is_empty() {", "if false {"),
    (LIST, "a list may have any length", ".nth(MOST)", ".nth(usize::MAX)"),
    (LIST, "post_recv! takes `unsignaled`", "Kind::Recv | Kind::SrqRecv", "Kind::SrqRecv"),
    (LIST, "post_srq_recv! takes `unsignaled`", "Kind::Recv | Kind::SrqRecv", "Kind::Recv"),
    (LIST, "any word counts as `unsignaled`", "if word != \"unsignaled\" {", "if false {"),
    (LIST, "a list needs no brackets of its own", "if !input.peek(Bracket) {", "if false {"),
    (
        EXPAND,
        "an unsignaled list leaves no debt",
        "format_ident!(\"post_unsignaled\"",
        "format_ident!(\"post\"",
    ),
    (
        EXPAND,
        "the work requests are not linked",
        "quote_spanned! {site=> #previous.cast() }",
        "quote_spanned! {site=> { let _ = #previous; ::core::ptr::null_mut() } }",
    ),
    (
        EXPAND,
        "every work request is the first of its list",
        "quote_spanned! {site=> #i, #is_last, }",
        "quote_spanned! {site=> { let _ = #i; 0 }, #is_last, }",
    ),
    (
        EXPAND,
        "no work request is the signaled end of its list",
        "quote_spanned! {site=> #i, #is_last, }",
        "quote_spanned! {site=> #i, #is_last && false, }",
    ),
    (
        EXPAND,
        "every work request of a list is its signaled end",
        "list.unsignaled.is_none() && i + 1 == count",
        "list.unsignaled.is_none()",
    ),
    (
        EXPAND,
        "the last of an unsignaled list is signaled",
        "list.unsignaled.is_none() && i + 1 == count",
        "i + 1 == count",
    ),
    (
        EXPAND,
        "the post begins with the last",
        "(name(\"at\", 0), name(\"at\", count - 1))",
        "(name(\"at\", count - 1), name(\"at\", count - 1))",
    ),
    (
        EXPAND,
        "the post ends with the first",
        "(name(\"at\", 0), name(\"at\", count - 1))",
        "(name(\"at\", 0), name(\"at\", 0))",
    ),
    (
        EXPAND,
        "the first entry is not given up",
        "(0..count).map(|i| name(\"pending\", i))",
        "(1..count).map(|i| name(\"pending\", i))",
    ),
    (
        EXPAND,
        "elements are evaluated in `unsafe`",
        "match (#request,) {",
        "match (unsafe { #request },) {",
    ),
    (EXPAND, "names are the user's", "unsafe { #post.#finish(", "\u{0}"),
    (
        EXPAND,
        "an error is not at its element",
        "Ident::new(&wr.to_string(), here)",
        "Ident::new(&wr.to_string(), site)",
    ),
    (
        EXPAND,
        "an error of the post is not at the queue",
        "span = site.located_at(list.queue.span())",
        "span = site",
    ),
    (
        EXPAND,
        "an error of the queue is not at the queue",
        "Ident::new(kind.begin(), at_queue)",
        "Ident::new(kind.begin(), site)",
    ),
];

pub fn all(root: &Path) -> Result<Vec<Mutant>> {
    let mut all = Vec::new();
    for (file, what, from, to) in CHANGES {
        let text = read(root, file)?;
        ensure!(text.matches(from).count() == 1, "{file} has `{from}` not once: mend emitted.rs");
        // The one that is no replacement in place: all spans of the expansion become the user's.
        let text = match to {
            "\u{0}" => text.replace("Span::mixed_site()", "Span::call_site()"),
            _ => text.replacen(from, to, 1),
        };
        let what = format!("{file}: {what}");
        all.push(Mutant { kind: Kind::Emitted, what, file, text, names: Vec::new() });
    }
    Ok(all)
}
