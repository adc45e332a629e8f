//! Inserts changes into a file, each behind a switch.

use std::cmp::Reverse;
use std::ops::Range;

use super::find::{Candidate, Shape};

/// A selected change, and the number that turns it on.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub id: u32,
    pub at: Candidate,
}

/// The text of a file, and the bytes of each mutant in it.
pub struct Spliced {
    pub text: String,
    pub places: Vec<Place>,
}

/// The place of a mutant in the text with all mutants.
pub struct Place {
    pub id: u32,
    pub shape: Shape,
    pub bytes: Range<usize>,
}

/// Inserts the mutants of one file into its text. A mutant inside another is part of the code
/// without that other mutant.
pub fn splice(text: &str, mutants: &[&Mutant]) -> Spliced {
    let mut order = mutants.to_vec();
    order
        .sort_by_key(|m| (m.at.range.start, !m.at.range.is_empty(), Reverse(m.at.range.end), m.id));
    let mut out = Spliced { text: String::new(), places: Vec::new() };
    write(text, 0..text.len(), &order, &mut out);
    out
}

fn write(text: &str, range: Range<usize>, mut inside: &[&Mutant], out: &mut Spliced) {
    let mut at = range.start;
    while let Some((mutant, rest)) = inside.split_first() {
        let place = &mutant.at.range;
        let within = rest.iter().take_while(|other| other.at.range.start < place.end).count();
        let (inner, rest) = rest.split_at(within);
        out.text.push_str(&text[at..place.start]);
        let begin = out.text.len();
        let (before, after) = around(mutant);
        out.text.push_str(&before);
        write(text, place.clone(), inner, out);
        out.text.push_str(&after);
        let (id, shape, bytes) = (mutant.id, mutant.at.shape, begin..out.text.len());
        out.places.push(Place { id, shape, bytes });
        (at, inside) = (place.end, rest);
    }
    out.text.push_str(&text[at..range.end]);
}

/// The text before and after the original.
fn around(mutant: &Mutant) -> (String, String) {
    let on = format!("crate::mutant({})", mutant.id);
    let instead = &mutant.at.instead;
    match mutant.at.shape {
        Shape::Value => (format!("(if {on} {{ ({instead}) }} else {{ ("), ") })".to_owned()),
        Shape::Statement => (format!("if {on} {{ {instead} }} else {{ "), " }".to_owned()),
        Shape::Let => (format!("!{on} && "), String::new()),
        Shape::Arm => (format!(" if !{on}"), String::new()),
        Shape::Body => (format!(" if {on} {{ return {instead}; }}"), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::find::candidates;
    use super::*;

    /// With every candidate inserted, the text still parses. Without candidates, it is unchanged.
    #[test]
    fn all_at_once_parse() {
        let text = "
            impl Ring {
                fn look(&mut self, n: u32) -> bool {
                    self.room = self.free().min(self.mask + 1 - n) as i32;
                    if let Some(x) = self.at { self.take(x)?; } else if n < 3 && !self.dead { return false; }
                    for i in 0..n { self.count(i); }
                    match n { 0 => self.a = 1, 1 if self.b => (), 2 => { self.c -= 1 } _ => drop(n) }
                    while n != 0 { n -= 1; }
                    n >= 2
                }
                const fn never(n: u32) -> u32 { n + 1 }
            }
            #[cfg(test)] mod tests { fn never() { 1 + 1; } }
        ";
        let all = candidates("x.rs", text).expect("it parses");
        assert!(all.len() > 30, "{}", all.len());
        let mutants: Vec<Mutant> =
            all.into_iter().zip(1..).map(|(at, id)| Mutant { id, at }).collect();
        let spliced = splice(text, &mutants.iter().collect::<Vec<_>>());
        syn::parse_file(&spliced.text).unwrap_or_else(|e| panic!("{e}\n{}", spliced.text));
        assert_eq!(spliced.places.len(), mutants.len());
        assert!(!spliced.text.contains("never(n: u32) -> u32 { if"), "{}", spliced.text);
        assert_eq!(splice(text, &[]).text, text);
    }
}
