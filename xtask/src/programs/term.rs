//! Types as the table has them: `Qp<T, Rts, P>`, in which single capitals are variables.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::{Result, bail};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub name: String,
    pub args: Vec<Term>,
}

/// What the variables are.
pub type Bound = BTreeMap<String, Term>;

impl Term {
    pub fn plain(name: &str) -> Term {
        Term { name: name.to_owned(), args: Vec::new() }
    }

    pub fn parse(text: &str) -> Result<Term> {
        let (term, rest) = parse(text)?;
        if !rest.trim().is_empty() {
            bail!("`{text}` is no type: what is `{rest}`?");
        }
        Ok(term)
    }

    pub fn is_variable(&self) -> bool {
        self.args.is_empty() && self.name.len() == 1
    }

    /// Whether this, with its variables, is the other, which has none; notes what they are.
    pub fn is(&self, other: &Term, bound: &mut Bound) -> bool {
        if self.is_variable() {
            return match bound.get(&self.name) {
                Some(known) => known == other,
                None => {
                    bound.insert(self.name.clone(), other.clone());
                    true
                }
            };
        }
        self.name == other.name
            && self.args.len() == other.args.len()
            && self.args.iter().zip(&other.args).all(|(a, b)| a.is(b, bound))
    }

    /// With each variable replaced; `None` if one is not known.
    pub fn with(&self, bound: &Bound) -> Option<Term> {
        if self.is_variable() {
            return bound.get(&self.name).cloned();
        }
        let args = self.args.iter().map(|arg| arg.with(bound)).collect::<Option<_>>()?;
        Some(Term { name: self.name.clone(), args })
    }
}

fn parse(text: &str) -> Result<(Term, &str)> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    if name.is_empty() {
        bail!("a type is missing before `{text}`");
    }
    let mut args = Vec::new();
    if let Some(after) = rest.strip_prefix('<') {
        rest = after;
        loop {
            let (arg, after) = parse(rest)?;
            args.push(arg);
            rest = after.trim_start();
            match rest.split_at_checked(1) {
                Some((",", after)) => rest = after,
                Some((">", after)) => {
                    rest = after;
                    break;
                }
                _ => bail!("`>` is missing before `{rest}`"),
            }
        }
    }
    Ok((Term { name: name.to_owned(), args }, rest))
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)?;
        for (i, arg) in self.args.iter().enumerate() {
            write!(f, "{}{arg}", if i == 0 { "<" } else { ", " })?;
        }
        f.write_str(if self.args.is_empty() { "" } else { ">" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_found_once_and_held_to() {
        let row = Term::parse("Qp<T, Rts, P>").expect("a type");
        let of = |text: &str| Term::parse(text).expect("a type");
        let mut bound = Bound::new();
        assert!(row.is(&of("Qp<Rc, Rts, Ring>"), &mut bound));
        assert_eq!(of("Vec<X>").with(&bound), None);
        assert_eq!(of("Cq<P>").with(&bound).map(|it| it.to_string()).as_deref(), Some("Cq<Ring>"));
        assert!(!row.is(&of("Qp<Uc, Rts, Ring>"), &mut bound));
        assert!(Term::parse("Vec<").is_err() && Term::parse("Vec> x").is_err());
    }
}
