//! The names that an example shows: those of lines that are not hidden, outside comments and strings.

use proc_macro2::{TokenStream, TokenTree};

pub struct Example {
    /// Tokens in their order, delimiters included.
    tokens: Vec<Token>,
}

struct Token {
    text: String,
    is_shown: bool,
}

impl Example {
    pub fn of(code: &str) -> Self {
        let is_hidden = |line: &str| line == "#" || line.starts_with("# ");
        let hidden: Vec<bool> = code.lines().map(|line| is_hidden(line.trim_start())).collect();
        let unhide = |line: &str| match line.trim_start() {
            "#" => String::new(),
            trimmed => trimmed.strip_prefix("# ").unwrap_or(line).to_owned(),
        };
        let rust: Vec<String> = code.lines().map(unhide).collect();
        let mut example = Self { tokens: Vec::new() };
        // An example that is no Rust does not compile, and `cargo test --doc` says so better.
        if let Ok(stream) = rust.join("\n").parse() {
            example.read(stream, &hidden);
        }
        example
    }

    fn read(&mut self, stream: TokenStream, hidden: &[bool]) {
        for tree in stream {
            let line = tree.span().start().line;
            let is_shown = !hidden.get(line.saturating_sub(1)).is_some_and(|hidden| *hidden);
            match tree {
                TokenTree::Group(group) => {
                    self.tokens.push(Token { text: "(".to_owned(), is_shown });
                    self.read(group.stream(), hidden);
                    self.tokens.push(Token { text: ")".to_owned(), is_shown });
                }
                TokenTree::Literal(_) => self.tokens.push(Token { text: "0".to_owned(), is_shown }),
                tree => self.tokens.push(Token { text: tree.to_string(), is_shown }),
            }
        }
    }

    /// The places at which a name is shown.
    fn places(&self, name: &str) -> impl Iterator<Item = usize> {
        let is_it = move |token: &Token| token.is_shown && token.text == name;
        self.tokens.iter().enumerate().filter(move |(_, token)| is_it(token)).map(|(at, _)| at)
    }

    fn text(&self, at: Option<usize>) -> &str {
        at.and_then(|at| self.tokens.get(at)).map_or("", |token| &token.text)
    }

    pub fn names(&self, name: &str) -> bool {
        self.places(name).next().is_some()
    }

    /// `name!`
    pub fn invokes(&self, name: &str) -> bool {
        self.places(name).any(|at| self.text(Some(at + 1)) == "!")
    }

    /// `value.name` or `Type::name`.
    pub fn calls(&self, name: &str) -> bool {
        self.places(name).any(|at| [".", ":"].contains(&self.text(at.checked_sub(1))))
    }

    /// `Type::name` where the example also shows `owner`.
    pub fn calls_on(&self, owner: &str, name: &str) -> bool {
        let is_path = |at: usize| self.text(at.checked_sub(1)) == ":";
        self.names(owner) && self.places(name).any(is_path)
    }
}

#[cfg(test)]
mod tests {
    use super::Example;

    const CODE: &str = "\
# let hidden = qp.query();
let text = \"qp.reset()\"; // qp.drain()
let qp = QueuePair::<Rc>::create(1);
post_send!(qp, [Send::new(buf)])?;
#[derive(Debug)]
struct S { depth: u32 }";

    #[test]
    fn names_in_hidden_lines_comments_and_strings_are_not_shown() {
        let example = Example::of(CODE);
        for name in ["query", "reset", "drain", "hidden"] {
            assert!(!example.names(name), "{name}");
        }
        assert!(example.names("Debug"), "an attribute is no hidden line");
    }

    #[test]
    fn a_call_has_its_receiver() {
        let example = Example::of(CODE);
        assert!(example.calls_on("QueuePair", "create") && !example.calls_on("Other", "create"));
        assert!(example.names("depth") && !example.calls("depth"));
        assert!(example.invokes("post_send") && !example.invokes("create"));
    }
}
