//! A line of a program, and what a turn makes of it.

use super::choice::{choice, leaves_out};

#[derive(Clone)]
pub struct Line {
    level: usize,
    /// `let mut v5 = `, or nothing.
    head: String,
    code: String,
    /// Where a turn chooses whether the call is made, and what is there if not.
    instead: Option<(u32, String)>,
}

impl Line {
    pub fn plain(level: usize, text: impl Into<String>) -> Line {
        Line { level, head: String::new(), code: text.into(), instead: None }
    }

    pub fn call(level: usize, head: String, code: String, instead: Option<(u32, String)>) -> Line {
        Line { level, head, code, instead }
    }

    /// As it is compiled, for all turns.
    pub fn text(&self) -> String {
        let Line { head, code, .. } = self;
        let indent = "    ".repeat(self.level);
        match &self.instead {
            Some((site, instead)) => {
                format!("{indent}{head}if w.does({site}) {{ {code} }} else {{ {instead} }};")
            }
            None if head.is_empty() => format!("{indent}{code}"),
            None => format!("{indent}{head}{code};"),
        }
    }

    /// As it is in one turn, without the choices.
    pub fn in_turn(&self, seed: u64) -> String {
        let Line { head, code, .. } = self;
        let end = if head.is_empty() && self.instead.is_none() { "" } else { ";" };
        format!("{}{head}{}{end}", "    ".repeat(self.level), chosen(code, seed))
    }

    /// Whether a turn leaves it out.
    pub fn is_left_out(&self, seed: u64) -> bool {
        self.instead.as_ref().is_some_and(|(site, _)| leaves_out(seed, *site))
    }
}

/// Between the words of a choice. No word has two blanks in it.
const BETWEEN: &str = ",  ";

/// `w.pick(SITE, [ONE,  OTHER])`
pub fn pick(site: u32, words: &[String]) -> String {
    match words {
        [word] => word.clone(),
        words => format!("w.pick({site}, [{}])", words.join(BETWEEN)),
    }
}

/// The text with each `w.pick` replaced by what it picks.
fn chosen(code: &str, seed: u64) -> String {
    let Some((before, rest)) = code.split_once("w.pick(") else { return code.to_owned() };
    let parts = rest.split_once("])").and_then(|(pick, rest)| {
        let (site, words) = pick.split_once(", [")?;
        Some((site.parse().ok()?, words.split(BETWEEN).collect::<Vec<_>>(), rest))
    });
    match parts {
        Some((site, words, rest)) => {
            let word = words[choice(seed, site, words.len())];
            format!("{before}{word}{}", chosen(rest, seed))
        }
        None => code.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_chooses_and_leaves_out() {
        let words = ["1", "F { n: 3, m: 4 }", "g(2)"].map(str::to_owned);
        let code = format!("f({}, {})", pick(7, &words), pick(8, &words[..1]));
        let line = Line::call(1, "let v = ".to_owned(), code, Some((9, "None".to_owned())));
        assert!(line.text().contains("w.does(9)") && line.text().contains("w.pick(7, [1,  F"));
        let mut all: Vec<String> = (0..200).map(|seed| line.in_turn(seed)).collect();
        all.sort();
        all.dedup();
        let mut expected = words.map(|word| format!("    let v = f({word}, 1);"));
        expected.sort();
        assert_eq!(all, expected);
        let left_out = (0..600).filter(|seed| line.is_left_out(*seed)).count();
        assert!((20..100).contains(&left_out), "{left_out} of 600");
    }
}
