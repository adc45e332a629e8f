//! The trait bounds of the public functions, and the rules that their traits name.

use std::collections::{BTreeMap, BTreeSet};

/// Texts by file name.
pub type Sources = BTreeMap<String, String>;

/// A bound removed from one file.
#[derive(Debug)]
pub struct Mutant {
    /// The file, the function and the bound.
    pub what: String,
    pub file: String,
    /// The file without the bound.
    pub text: String,
    /// The rules that the trait names; empty for traits of other crates.
    pub rules: BTreeSet<String>,
}

/// One mutant for each bound. The loopback device is for tests and does not have its own rules.
pub fn all(sources: &Sources) -> Vec<Mutant> {
    let is_product = |file: &str| {
        file.ends_with(".rs") && !file.contains("tests") && !file.contains("loopback/")
    };
    let traits = rules_of_traits(sources);
    let sources = sources.iter().filter(|(file, _)| is_product(file));
    sources.flat_map(|(file, text)| lost_bounds(file, text, &traits)).collect()
}

type Traits = BTreeMap<String, BTreeSet<String>>;

/// The rules in the documentation and in the diagnostics of each trait.
fn rules_of_traits(sources: &Sources) -> Traits {
    let mut traits = Traits::new();
    for text in sources.values() {
        let lines: Vec<&str> = text.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let head = line.strip_prefix("pub ").unwrap_or(line);
            let head = head.strip_prefix("unsafe ").unwrap_or(head);
            let Some(rest) = head.strip_prefix("trait ") else { continue };
            let name = rest.split(|c| !is_ident(c)).next().unwrap_or(rest);
            let above = lines[..at].iter().rev().take_while(|line| !line.is_empty());
            let named = above.flat_map(|line| rules_in(line));
            traits.entry(name.to_owned()).or_default().extend(named);
        }
    }
    // A call has the rules of the bounds of its impls.
    for (bounds, calls) in sources.values().flat_map(|text| impls_of_allows(text)) {
        let named: Vec<_> =
            bounds.split(|c| !is_ident(c)).filter_map(|it| traits.get(it)).collect();
        let named: BTreeSet<String> = named.into_iter().flatten().cloned().collect();
        for call in calls.split(|c| !is_ident(c)) {
            traits.entry(call.to_owned()).or_default().extend(named.clone());
        }
    }
    traits
}

/// The bounds and the calls of each impl of `Allows`: `[S: Binds] CmId<S>: BindAddr;` of `allows!`,
/// and `impl<D> Allows<call::Fill<D>> for P where D: OneBuffer {`.
fn impls_of_allows(text: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    let mut lines = text.lines().map(str::trim);
    let mut in_macro = false;
    while let Some(line) = lines.next() {
        let head = line.strip_prefix("allows! {");
        in_macro = (in_macro && line != "}") || head.is_some();
        let head = head.unwrap_or(line).trim_start();
        let is_impl = line.contains("Allows<call::") && line.contains(" for ");
        let is_row = in_macro && head.starts_with('[');
        if !is_impl && !is_row {
            continue;
        }
        let mut whole = head.to_owned();
        while !whole.contains(if is_impl { '{' } else { ';' }) {
            let Some(next) = lines.next() else { break };
            whole = format!("{whole} {next}");
        }
        all.extend(match is_impl {
            true => whole.split_once(" for ").map(|(of, bounds)| {
                let call = of.rsplit_once("Allows<call::").map_or(of, |(_, call)| call);
                (bounds.to_owned(), call.split(|c| !is_ident(c)).next().unwrap_or(call).to_owned())
            }),
            false => {
                whole.rsplit_once(": ").map(|(bounds, calls)| (bounds.to_owned(), calls.to_owned()))
            }
        });
        in_macro &= !whole.ends_with('}');
    }
    all
}

/// Every `R1.2` in a text.
pub fn rules_in(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '.');
    words.map(|word| word.trim_end_matches('.')).filter(|word| is_rule(word)).map(str::to_owned)
}

fn is_rule(word: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let parts = word.strip_prefix('R').and_then(|rest| rest.split_once('.'));
    parts.is_some_and(|(section, number)| is_number(section) && is_number(number))
}

fn is_ident(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The type of an `impl` line, without its parameters.
fn implemented(line: &str) -> &str {
    let mut depth = 0;
    let after = line["impl".len()..].find(|c| {
        depth += i32::from(c == '<') - i32::from(c == '>');
        depth == 0 && c == ' '
    });
    let head = after.map_or("", |at| &line["impl".len() + at + 1..]);
    let of = head.split_once(" for ").map_or(head, |(_, of)| of);
    of.trim_start_matches(['&', '\'']).split(['<', ' ', '{']).next().unwrap_or(of)
}

/// Every bound in a where-clause. Private functions are left out, because their callers have the
/// bounds.
fn lost_bounds(file: &str, text: &str, traits: &Traits) -> Vec<Mutant> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    let (mut in_where, mut is_public, mut owner, mut function) = (false, true, "", String::new());
    for (at, line) in lines.iter().enumerate() {
        let code = line.trim();
        if code.starts_with("//") {
            continue;
        }
        // Mutants are named by function, not by line, so that other edits do not rename them. (In a
        // macro the line is indented.)
        if line.starts_with("impl") || code.starts_with("impl<") {
            (owner, is_public) = (implemented(code), true);
            function = format!("impl {owner}");
        } else if *line == "}" {
            owner = "";
        }
        if let Some(name) = code.split_once("fn ").map(|(_, name)| name) {
            let name = name.split(['(', '<']).next().unwrap_or(name);
            function = if owner.is_empty() { name.to_owned() } else { format!("{owner}::{name}") };
            is_public = code.starts_with("pub ");
        }
        let mut push = |new: String, subject: &str, bound: &str| {
            let mut changed: Vec<&str> = lines.clone();
            changed[at] = &new;
            let name = bound.strip_prefix("Allows<call::").unwrap_or(bound);
            let name = name.split(|c| !is_ident(c)).next().unwrap_or(name);
            all.push(Mutant {
                what: format!("{file}, `{function}`: without `{subject}: {bound}`"),
                file: file.to_owned(),
                text: changed.join("\n") + "\n",
                rules: traits.get(name).cloned().unwrap_or_default(),
            });
        };
        if code == "where" || code.ends_with(") where") {
            in_where = true;
        } else if code.ends_with('{') || code == "}" || code.ends_with(';') {
            in_where = false;
        } else if let Some((subject, bounds)) = code.split_once(": ").filter(|_| in_where) {
            let bounds: Vec<&str> = bounds.trim_end_matches(',').split(" + ").collect();
            // (`?Sized` lifts a bound.)
            for lost in bounds.iter().filter(|lost| is_public && !lost.starts_with('?')) {
                let rest: Vec<_> = bounds.iter().filter(|b| *b != lost).copied().collect();
                let gap = if rest.is_empty() { "" } else { " " };
                push(format!("        {subject}:{gap}{},", rest.join(" + ")), subject, lost);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_an_impl() {
        for (line, of) in [
            ("impl RdmaRead {", "RdmaRead"),
            ("impl<'d, T: Transport, const G: usize> SendList<'d, T, P, G>", "SendList"),
            ("impl<T, P: Profile<Entry = Raw>> SendPost<'_, T, P> {", "SendPost"),
            ("impl<E: Entry> InFlight<E> for Credits<E> {", "Credits"),
        ] {
            assert_eq!(implemented(line), of);
        }
    }

    #[test]
    fn a_bound_has_the_rules_of_its_trait() {
        let rules =
            "/// A state (R8.19).\n#[on(message = \"no (R8.20).\")]\npub trait CanPost {}\n";
        let code = "pub fn post<S>(s: S)\nwhere\n    S: CanPost + Allows<call::Post>,\n{\n}\n\
            allows! {\n    [S: CanPost] Qp<S>: Post;\n}\n";
        let by_hand = "impl<P> Allows<call::Fill<P>> for P\nwhere\n    P: CanPost,\n{\n}\n\
            allows! {\n    [S: CanPost,\n    const N: usize] Qp<S>:\n    More<S>;\n}\n\
            allows! { [S: CanPost] S: One; }\n    [nothing];\n";
        let seen = impls_of_allows(by_hand);
        let seen: Vec<_> = seen.iter().map(|(bounds, call)| (&bounds[..], &call[..])).collect();
        assert_eq!(
            seen,
            [
                ("P where P: CanPost, {", "Fill"),
                ("[S: CanPost, const N: usize] Qp<S>", "More<S>;"),
                ("[S: CanPost] S", "One; }"),
            ]
        );
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let mutants = all(&Sources::from([file("src/a.rs", rules), file("src/b.rs", code)]));
        let seen = mutants.iter().map(|it| (it.what.as_str(), it.rules.len()));
        let of = |bound| format!("src/b.rs, `post`: without `S: {bound}`");
        assert!(seen.eq([(of("CanPost").as_str(), 2), (of("Allows<call::Post>").as_str(), 2)]));
        assert!(
            mutants[0].text.contains("        S: Allows<call::Post>,\n"),
            "{}",
            mutants[0].text
        );
    }
}
