//! Finds the prose of a file: its comments, its Markdown, and its string literals.

use std::mem;

/// The fewest words of a string literal that counts as prose.
const WORDS: usize = 5;

/// A paragraph, list item, table cell, comment or string literal. A code span becomes `` `x` ``.
#[derive(Default)]
pub struct Paragraph {
    pub text: String,
    /// The number of the line that each byte of `text` comes from.
    pub line_of: Vec<usize>,
}

/// An exception: `lint: RULE: REASON`, in a comment.
pub struct Exception {
    pub line: usize,
    /// The line that it applies to: its own, if that has code, otherwise the next.
    pub applies_to: usize,
    pub rule: String,
    pub reason: String,
}

#[derive(Default)]
pub struct Prose {
    pub paragraphs: Vec<Paragraph>,
    pub exceptions: Vec<Exception>,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Markdown,
    /// Rust or C.
    Code,
    /// TOML: only comments.
    Config,
}

pub fn extract(text: &str, kind: Kind) -> Prose {
    let mut pages = Pages::default();
    match kind {
        Kind::Markdown => {
            for (i, line) in text.lines().enumerate() {
                pages.line(i + 1, line, false);
            }
        }
        Kind::Code => scan(text, &mut pages),
        Kind::Config => {
            for (i, line) in text.lines().enumerate() {
                let is_value = line.split('#').next().unwrap_or("").matches('"').count() % 2 == 1;
                let comment = line.split_once("# ").filter(|_| !is_value);
                let after_code = comment.is_none_or(|(code, _)| !code.trim().is_empty());
                if after_code {
                    pages.end();
                }
                if let Some((_, comment)) = comment {
                    pages.line(i + 1, comment, after_code);
                }
                if after_code {
                    pages.end();
                }
            }
        }
    }
    pages.end();
    pages.prose
}

/// Collects lines of Markdown into paragraphs.
#[derive(Default)]
struct Pages {
    prose: Prose,
    now: Paragraph,
    in_fence: bool,
    in_span: bool,
}

impl Pages {
    /// Ends a paragraph, and a block of code if the comment that contains it ends.
    fn end(&mut self) {
        self.end_paragraph();
        self.in_fence = false;
    }

    fn end_paragraph(&mut self) {
        let now = mem::take(&mut self.now);
        if !now.text.trim().is_empty() {
            self.prose.paragraphs.push(now);
        }
        self.in_span = false;
    }

    fn push(&mut self, line: usize, text: &str) {
        for c in text.chars().chain([' ']) {
            let is_tick = c == '`';
            if self.in_span && !is_tick {
                continue;
            }
            if is_tick && self.in_span {
                self.put(line, 'x');
            }
            self.in_span ^= is_tick;
            self.put(line, c);
        }
    }

    fn put(&mut self, line: usize, c: char) {
        self.now.text.push(c);
        self.now.line_of.resize(self.now.text.len(), line);
    }

    /// Adds a line of Markdown. `after_code` says that code precedes it on its line.
    fn line(&mut self, number: usize, text: &str, after_code: bool) {
        let text = text.trim();
        if let Some(exception) = exception(number, text, after_code) {
            self.prose.exceptions.push(exception);
            return;
        }
        if text.starts_with("```") {
            self.end_paragraph();
            self.in_fence = !self.in_fence;
            return;
        }
        if self.in_fence {
            // Comments of an example are prose as well.
            let comment = if text.starts_with("// ") { Some(text) } else { None };
            let comment = comment.or_else(|| text.find(" // ").map(|at| &text[at + 1..]));
            match comment {
                Some(comment) => self.push(number, comment.trim_start_matches('/').trim()),
                None => self.end_paragraph(),
            }
            return;
        }
        if text.is_empty() || text.starts_with('#') || text.starts_with("[^") {
            self.end_paragraph();
        }
        if text.starts_with('#') {
            return; // A heading may be a label, such as "What it costs".
        }
        if text.starts_with('|') {
            for cell in text.split('|') {
                self.end_paragraph();
                self.push(number, cell.trim());
            }
            return self.end_paragraph();
        }
        let item = text.strip_prefix("- ").or_else(|| text.strip_prefix("* "));
        if item.is_some() {
            self.end_paragraph();
        }
        self.push(number, item.unwrap_or(text));
    }

    fn literal(&mut self, lines: &[(usize, String)]) {
        let words = lines.iter().flat_map(|(_, text)| text.split_whitespace());
        if words.filter(|word| word.chars().any(char::is_alphabetic)).count() < WORDS {
            return;
        }
        let outer = mem::take(&mut self.now);
        for (number, text) in lines {
            self.push(*number, text.trim());
            if text.trim().is_empty() {
                self.end_paragraph();
            }
        }
        self.end_paragraph();
        self.now = outer;
    }
}

fn exception(line: usize, text: &str, after_code: bool) -> Option<Exception> {
    let text = text.trim_start_matches("<!--").trim_end_matches("-->").trim();
    let (rule, reason) = text.strip_prefix("lint: ")?.split_once(": ")?;
    let applies_to = if after_code { line } else { line + 1 };
    Some(Exception { line, applies_to, rule: rule.to_owned(), reason: reason.trim().to_owned() })
}

/// Reads Rust or C. Consecutive lines that are only comments are one page of Markdown.
fn scan(text: &str, pages: &mut Pages) {
    let bytes = text.as_bytes();
    let (mut at, mut line, mut has_code) = (0, 1, false);
    let mut comment_on_line = false;
    while at < bytes.len() {
        let rest = &text[at..];
        if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or("");
            let body = comment.trim_start_matches('/');
            let body = body.strip_prefix('!').unwrap_or(body);
            if has_code {
                pages.end();
            }
            pages.line(line, body, has_code);
            if has_code {
                pages.end();
            }
            comment_on_line = true;
            at += comment.len();
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
            pages.end();
            for part in rest[..length].split('\n') {
                let body = part.trim().trim_start_matches(['/', '*']).trim_end_matches(['/', '*']);
                pages.line(line, body, has_code);
                line += 1;
            }
            pages.end();
            line -= 1;
            comment_on_line = true;
            at += length;
        } else if bytes[at] == b'\n' {
            if !comment_on_line {
                pages.end();
            }
            (line, has_code, comment_on_line) = (line + 1, false, false);
            at += 1;
        } else if let Some((length, lines)) = string(rest, line, at == 0 || !is_word(bytes[at - 1]))
        {
            pages.literal(&lines);
            line += rest[..length].matches('\n').count();
            has_code = true;
            at += length;
        } else {
            has_code |= !bytes[at].is_ascii_whitespace();
            at += character(rest).unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of a character literal. A quote of a lifetime is not one.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    let length = match body.strip_prefix('\\') {
        Some(escaped) => 2 + escaped.get(1..)?.find('\'')?,
        None => body.chars().next()?.len_utf8(),
    };
    body.get(length..)?.starts_with('\'').then_some(length + 2)
}

/// The length of the string literal that starts here, and its text line by line.
fn string(rest: &str, line: usize, at_word: bool) -> Option<(usize, Vec<(usize, String)>)> {
    let prefix = rest.trim_start_matches(['b', 'c']);
    let raw = prefix.strip_prefix('r').filter(|_| at_word);
    let hashes = raw.map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    if let Some(body) = raw.and_then(|raw| raw[hashes..].strip_prefix('"')) {
        let close = format!("\"{}", "#".repeat(hashes));
        let end = body.find(&close)?;
        let lines = body[..end].lines().enumerate().map(|(i, text)| (line + i, text.to_owned()));
        return Some((rest.len() - body.len() + end + close.len(), lines.collect()));
    }
    let body = rest.strip_prefix('"')?;
    let (mut lines, mut number) = (vec![(line, String::new())], line);
    let mut chars = body.char_indices();
    while let Some((i, c)) = chars.next() {
        let next = match c {
            '"' => return Some((i + 2, lines)),
            '\\' => match chars.next()?.1 {
                '\n' => {
                    number += 1;
                    lines.push((number, String::new()));
                    continue;
                }
                // A line of the text ends, and so does a sentence.
                'n' => {
                    lines.push((number, String::new()));
                    lines.push((number, String::new()));
                    continue;
                }
                escaped => escaped,
            },
            '\n' => {
                number += 1;
                lines.push((number, String::new()));
                continue;
            }
            c => c,
        };
        lines.last_mut()?.1.push(next);
    }
    None
}
