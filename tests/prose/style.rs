//! Sentences are plain English: none of the patterns of [`patterns`](crate::patterns).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use regex::{Regex, RegexSet};

use crate::extract::{Kind, Paragraph, extract};
use crate::patterns::{RULES, Rule};

/// The lint itself quotes what it rejects.
const LEFT_OUT: [&str; 1] = ["tests/prose"];

/// The files by their extension. Other files contain no prose, or are generated.
const KINDS: [(&str, Kind); 5] = [
    ("md", Kind::Markdown),
    ("rs", Kind::Code),
    ("c", Kind::Code),
    ("h", Kind::Code),
    ("toml", Kind::Config),
];

struct Compiled {
    rule: &'static Rule,
    pattern: Regex,
    correct: Option<Regex>,
}

struct Lint {
    rules: Vec<Compiled>,
    /// All patterns, because most sentences match none.
    any: RegexSet,
    end_of_sentence: Regex,
}

impl Lint {
    fn new() -> Lint {
        let compile = |pattern: &str| Regex::new(pattern).unwrap();
        let rules = RULES.iter().map(|rule| Compiled {
            rule,
            pattern: compile(rule.pattern),
            correct: (!rule.correct.is_empty()).then(|| compile(rule.correct)),
        });
        let any = RegexSet::new(RULES.iter().map(|rule| rule.pattern)).unwrap();
        Lint { rules: rules.collect(), any, end_of_sentence: compile(r#"[.!?][)"*_]* +"#) }
    }

    /// The sentences of a file that match a pattern, and exceptions that are not needed, each as
    /// `LINE: RULE: ...`.
    fn hits(&self, text: &str, kind: Kind) -> Vec<String> {
        let prose = extract(text, kind);
        let mut needed = vec![false; prose.exceptions.len()];
        let mut found = Vec::new();
        for paragraph in &prose.paragraphs {
            self.paragraph(paragraph, |line, rule, sentence| {
                let applies = prose.exceptions.iter().position(|exception| {
                    exception.applies_to == line && exception.rule == rule.name
                });
                match applies {
                    Some(i) => needed[i] = true,
                    None => found.push(format!(
                        "{line}: {}: write {}\n      {sentence}",
                        rule.name, rule.write
                    )),
                }
            });
        }
        for (exception, needed) in prose.exceptions.iter().zip(needed) {
            if !needed {
                let rule = &exception.rule;
                found.push(format!("{}: the exception for {rule} is not needed", exception.line));
            } else if exception.reason.is_empty() {
                found.push(format!("{}: an exception gives its reason", exception.line));
            }
        }
        found
    }

    fn paragraph(&self, paragraph: &Paragraph, mut hit: impl FnMut(usize, &Rule, &str)) {
        let text = &paragraph.text;
        let mut start = 0;
        let ends = self.end_of_sentence.find_iter(text).map(|end| end.end());
        for end in ends.chain([text.len()]) {
            let sentence = &text[start..end];
            for i in self.any.matches(sentence) {
                let Compiled { rule, pattern, correct } = &self.rules[i];
                // Blanks of the same length keep the offsets, and so the line.
                let blank = |found: &regex::Captures| "_".repeat(found[0].len());
                let rest = match correct {
                    Some(correct) => correct.replace_all(sentence, blank),
                    None => sentence.into(),
                };
                if let Some(found) = pattern.find(&rest) {
                    hit(paragraph.line_of[start + found.start()], rule, sentence.trim());
                }
            }
            start = end;
        }
    }
}

#[test]
fn sentences_are_plain() {
    let lint = Lint::new();
    let (mut wrong, mut count) = (String::new(), 0);
    for (extension, kind) in KINDS {
        let mut all = Vec::new();
        crate::files(Path::new("."), extension, &LEFT_OUT, &mut all);
        for path in all {
            let hits = lint.hits(&fs::read_to_string(&path).unwrap(), kind);
            count += hits.len();
            for hit in hits {
                writeln!(wrong, "{}:{hit}", path.display()).unwrap();
            }
        }
    }
    assert!(wrong.is_empty(), "{count} sentences to rewrite:\n{wrong}");
}

/// One sentence for each rule, and the same in plain English.
const SAMPLES: [(&str, &str, &str); 29] = [
    ("clause-as-subject", "What is refused comes back.", "A refused buffer comes back. What now?"),
    ("that-clause-first", "That the queue is full is an error.", "A full queue is an error."),
    ("has-not", "A port that has not enough fails.", "A port with fewer fails."),
    ("is-none", "The value 9 is none.", "There is none, and none of them is 9."),
    ("is-no-noun", "This is no cell.", "There is no cell, and it is no longer needed."),
    ("is-told", "The queue is told.", "The queue is notified; the two are told apart."),
    ("things-speak", "The error tells of two.", "The error names two."),
    ("people", "It is read by nobody.", "No thread reads it."),
    ("old-word", "It waits for ever.", "It waits forever."),
    ("that-of", "The lock is that of the pool.", "It is the same as that of the pool."),
    ("not-so-many", "There are not so many.", "There are fewer."),
    ("else", "It is full; else it fails.", "Otherwise it fails, or is something else."),
    ("home", "The buffer goes home.", "The buffer returns to its pool in the home directory."),
    ("keeps-books", "It keeps no books.", "It does its own bookkeeping."),
    ("of-someones", "The choice is the caller's.", "The choice is up to the caller's code."),
    ("is-of", "The completion is of another queue.", "It is of the same type."),
    ("become-of", "It reports what became of it.", "It reports what happened to it."),
    ("all-that", "It lists all that is pending.", "It lists everything that is pending."),
    ("goes-on", "The test goes on.", "The test continues; it goes on the list."),
    ("nothing-of", "It reads nothing of the page.", "It does not read the page."),
    ("who-for-things", "It belongs to who polls.", "It belongs to the thread that polls."),
    ("where-clause-first", "Where there is none, it fails.", "If there is none, it fails."),
    ("gives", "Gives the number.", "Returns the number it gives."),
    ("so-many", "It stops after so many entries.", "It stops after this many entries."),
    ("as-it-has", "The order is as C has it.", "The order is as in C."),
    ("is-with", "The buffer is with the device.", "The device owns the buffer."),
    ("under-way", "A reply is on its way.", "A reply is in flight, on its way out."),
    ("of-its-own", "It has a lock of its own.", "It has its own lock."),
    ("alone", "It holds for reads alone.", "It holds only for reads, let alone."),
];

#[test]
fn each_rule_finds_its_sample() {
    let lint = Lint::new();
    assert_eq!(
        SAMPLES.map(|(name, ..)| name).to_vec(),
        RULES.iter().map(|rule| rule.name).collect::<Vec<_>>()
    );
    for (name, bad, good) in SAMPLES {
        let found = lint.hits(bad, Kind::Markdown);
        assert!(found.len() == 1 && found[0].starts_with(&format!("1: {name}: ")), "{found:?}");
        assert_eq!(lint.hits(good, Kind::Markdown), [""; 0]);
    }
}

#[test]
fn prose_is_found_in_comments_and_strings() {
    let lint = Lint::new();
    let lines = |text: &str, kind| {
        let hits = lint.hits(text, kind);
        hits.iter().map(|hit| hit.split(':').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let code = "/// It waits\n\
                /// for ever. `amid`\n\
                fn f<'a>() {\n\
                let c = '\"'; // It runs amid the wait.\n\
                let s = \"not found amid \\\n the other files\";\n\
                let s = r#\"a \"quoted\" word amid other words\"#;\n\
                let few = \"amid four words here\";\n\
                /* C waits amid it. */\n\
                /// ```\n\
                /// amid(); // Amid it.\n\
                /// ```\n";
    assert_eq!(lines(code, Kind::Code), ["2", "4", "5", "7", "9", "11"]);
    let page = "# What amid\n\nIt is [amid](amid).\n\n```text\namid\n```\n| amid | a |\n- amid\n";
    assert_eq!(lines(page, Kind::Markdown), ["3", "8", "9"]);
    assert_eq!(lines("a = \"# amid\"\nb = 1 # amid\n", Kind::Config), ["2"]);
}

#[test]
fn exceptions_are_needed_and_have_a_reason() {
    let lint = Lint::new();
    let hits = |text: &str| lint.hits(text, Kind::Code).len();
    assert_eq!(hits("// lint: old-word: the title of a poem\n/// Amid the fields\n"), 0);
    assert_eq!(hits("/// A poem\n// lint: old-word: its title\n/// Amid the fields\n"), 0);
    assert_eq!(hits("f(\"a title of five words amid\"); // lint: old-word: a title\n"), 0);
    assert_eq!(hits("// lint: old-word: \n/// Amid the fields\n"), 1);
    assert_eq!(hits("// lint: people: a poem\n/// Amid the fields\n"), 2);
    assert_eq!(hits("// lint: old-word: a poem\n/// In the fields\n"), 1);
    let page = "<!-- lint: old-word: the title of a poem -->\nAmid the fields\n";
    assert_eq!(lint.hits(page, Kind::Markdown), [""; 0]);
}
